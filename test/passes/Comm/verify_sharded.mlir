// RUN: ciuic-opt %s --split-input-file --verify-diagnostics --ciuic-verify-sharded

// Every parameter lies in a bucket.
module {
  // expected-error @+1 {{parameter @w lies in no bucket, expected 'in @bucket at N'}}
  train.state trainable parameter @w : tensor<8xf32> init #train.constant<0.0>
}

// -----

// A bucket that a parameter names exists.
module {
  // expected-error @+1 {{parameter @w names @b, which is no comm.bucket}}
  train.state parameter @w : tensor<8xf32> init #train.constant<0.0> in @b at 0
}

// -----

// Gradients are of buckets, no longer of parameters.
module {
  train.state parameter @w : tensor<8xf32> init #train.constant<0.0> in @b at 0
  comm.bucket @b over <"dp" = 2> elements 256 chunk 128
  // expected-error @+1 {{gradient @w.grad names @w, which is no comm.bucket}}
  train.state gradient @w.grad of @w : tensor<8xf32> init #train.constant<0.0>
}

// -----

// A bucket is of something.
module {
  // expected-error @+1 {{bucket @b has no member}}
  comm.bucket @b over <"dp" = 2> elements 256 chunk 128
}

// -----

// Members start at multiples of 128.
module {
  // expected-error @+1 {{parameter @w of 8 elements at 64 of bucket @b does not start at a multiple of 128}}
  train.state parameter @w : tensor<8xf32> init #train.constant<0.0> in @b at 64
  comm.bucket @b over <"dp" = 2> elements 256 chunk 128
  train.state parameter @b.param of @b : tensor<256xf32> init #train.constant<0.0>
}

// -----

// Members do not overlap.
module {
  // expected-note @+1 {{@w is declared here}}
  train.state parameter @w : tensor<130xf32> init #train.constant<0.0> in @b at 0
  // expected-error @+1 {{parameter @v of 8 elements at 128 of bucket @b overlaps the one before it, which ends at 130}}
  train.state parameter @v : tensor<8xf32> init #train.constant<0.0> in @b at 128
  comm.bucket @b over <"dp" = 2> elements 256 chunk 128
  train.state parameter @b.param of @b : tensor<256xf32> init #train.constant<0.0>
}

// -----

// Members end inside.
module {
  // expected-error @+1 {{parameter @w of 129 elements at 128 of bucket @b ends outside of its 256 elements}}
  train.state parameter @w : tensor<129xf32> init #train.constant<0.0> in @b at 128
  comm.bucket @b over <"dp" = 2> elements 256 chunk 128
  train.state parameter @b.param of @b : tensor<256xf32> init #train.constant<0.0>
}

// -----

// A bucket's parameters are stored once.
module {
  train.state parameter @w : tensor<8xf32> init #train.constant<0.0> in @b at 0
  // expected-error @+1 {{bucket @b has 0 states for its parameters, expected 1}}
  comm.bucket @b over <"dp" = 2> elements 256 chunk 128
}

// -----

// What is trained has a gradient.
module {
  train.state trainable parameter @w : tensor<8xf32> init #train.constant<0.0> in @b at 0
  // expected-error @+1 {{bucket @b has 0 states for its gradients, expected 1}}
  comm.bucket @b over <"dp" = 2> elements 256 chunk 128 trainable
  train.state parameter @b.param of @b : tensor<256xf32> init #train.constant<0.0>
}

// -----

// What is frozen has none.
module {
  train.state parameter @w : tensor<8xf32> init #train.constant<0.0> in @b at 0
  // expected-error @+1 {{bucket @b has 1 states for its gradients, expected 0}}
  comm.bucket @b over <"dp" = 2> elements 256 chunk 128
  train.state parameter @b.param of @b : tensor<256xf32> init #train.constant<0.0>
  train.state gradient @b.grad of @b : tensor<256xf32> init #train.constant<0.0>
}

// -----

// What is trained in 16 bits has a master copy.
module {
  train.state trainable parameter @w : tensor<8xbf16> init #train.constant<0.0> in @b at 0
  // expected-error @+1 {{bucket @b has 0 states for its master copies, expected 1}}
  comm.bucket @b over <"dp" = 2> elements 256 chunk 128 trainable
  train.state parameter @b.param of @b : tensor<256xbf16> init #train.constant<0.0>
  train.state gradient @b.grad of @b : tensor<256xf32> init #train.constant<0.0>
}

// -----

// Members have the type of their storage.
module {
  // expected-error @+1 {{parameter @w of 'tensor<8xbf16>' lies in bucket @b of 'f32'}}
  train.state parameter @w : tensor<8xbf16> init #train.constant<0.0> in @b at 0
  comm.bucket @b over <"dp" = 2> elements 256 chunk 128
  train.state parameter @b.param of @b : tensor<256xf32> init #train.constant<0.0>
}

// -----

// Chunks times ranks are the whole: a sharded storage holds one chunk.
module {
  train.state parameter @w : tensor<8xf32> init #train.constant<0.0> in @b at 0
  comm.bucket @b over <"dp" = 2> elements 256 chunk 128
  // expected-error @+1 {{parameter @b.param has type 'tensor<256xf32>', expected 128 elements: a chunk of bucket @b}}
  train.state parameter @b.param of @b sharded : tensor<256xf32> init #train.constant<0.0>
}

// -----

// Gradients accumulate in f32.
module {
  train.state trainable parameter @w : tensor<8xf32> init #train.constant<0.0> in @b at 0
  comm.bucket @b over <"dp" = 2> elements 256 chunk 128 trainable
  train.state parameter @b.param of @b : tensor<256xf32> init #train.constant<0.0>
  // expected-error @+1 {{gradient @b.grad has type 'tensor<256xbf16>', expected f32}}
  train.state gradient @b.grad of @b : tensor<256xbf16> init #train.constant<0.0>
}

// -----

// An axis has as many ranks everywhere.
module {
  train.state parameter @w : tensor<8xf32> init #train.constant<0.0> in @b at 0
  comm.bucket @b over <"dp" = 2> elements 256 chunk 128
  train.state parameter @b.param of @b : tensor<256xf32> init #train.constant<0.0>
  func.func @apply_step(%x: tensor<f32>) {
    // expected-error @+1 {{has 4 ranks along axis "dp", which has 2 elsewhere}}
    %y = comm.all_reduce sum %x over <"dp" = 4> for "x" : tensor<f32>
    return
  }
}

// -----

// One order of collectives: no branches.
module {
  // expected-error @+1 {{@micro_step has 2 basic blocks, expected straight-line code}}
  func.func @micro_step() {
    return
  ^bb1:
    return
  }
}

// -----

// No collective hides in a region.
module {
  func.func @micro_step(%x: tensor<4xf32>) {
    %y = train.recompute "b"(%x) : (tensor<4xf32>) -> tensor<4xf32> {
    ^bb0(%in: tensor<4xf32>):
      // expected-error @+1 {{is inside a region of 'train.recompute', expected at the level of @micro_step}}
      %z = comm.all_reduce sum %in over <"dp" = 2> for "x" : tensor<4xf32>
      train.yield %z : tensor<4xf32>
    }
    return
  }
}

// -----

// Parameters are read through their bucket.
module {
  train.state parameter @w : tensor<8xf32> init #train.constant<0.0> in @b at 0
  comm.bucket @b over <"dp" = 2> elements 256 chunk 128
  train.state parameter @b.param of @b : tensor<256xf32> init #train.constant<0.0>
  func.func @micro_step() {
    // expected-error @+1 {{names parameter @w, which lies in bucket @b; expected a state of the bucket}}
    %w = train.read @w : tensor<8xf32>
    return
  }
}

// -----

// What is unpacked is a member.
module {
  train.state parameter @w : tensor<8xf32> init #train.constant<0.0> in @b at 128
  comm.bucket @b over <"dp" = 2> elements 256 chunk 128
  train.state parameter @b.param of @b : tensor<256xf32> init #train.constant<0.0>
  func.func @micro_step() {
    %b = train.read @b.param : tensor<256xf32>
    // expected-error @+1 {{takes 'tensor<8xf32>' at 0, where bucket @b has no such member}}
    %w = comm.unpack %b at 0 : tensor<256xf32> -> tensor<8xf32>
    return
  }
}

// -----

// A chunk is no bucket: rank 1's first elements are not the first member's.
module {
  train.state parameter @w : tensor<8xf32> init #train.constant<0.0> in @b at 0
  comm.bucket @b over <"dp" = 2> elements 256 chunk 128
  train.state parameter @b.param of @b sharded : tensor<128xf32> init #train.constant<0.0>
  func.func @micro_step() {
    %b = train.read @b.param : tensor<128xf32>
    // expected-error @+1 {{takes from 128 elements of bucket @b, expected all 256}}
    %w = comm.unpack %b at 0 : tensor<128xf32> -> tensor<8xf32>
    return
  }
}

// -----

// Views are of buckets.
module {
  func.func @micro_step(%x: tensor<256xf32>) {
    // expected-error @+1 {{takes from a value that is no bucket's}}
    %w = comm.unpack %x at 0 : tensor<256xf32> -> tensor<8xf32>
    return
  }
}

// -----

// Gradients are laid out as the parameters are.
module {
  train.state trainable parameter @w : tensor<8xf32> init #train.constant<0.0> in @b at 0
  comm.bucket @b over <"dp" = 2> elements 256 chunk 128 trainable
  train.state parameter @b.param of @b : tensor<256xf32> init #train.constant<0.0>
  train.state gradient @b.grad of @b sharded : tensor<128xf32> init #train.constant<0.0>
  func.func @micro_step(%g: tensor<8xf32>) {
    // expected-error @+1 {{lays 'tensor<8xf32>' at 128, where bucket @b has no such member}}
    %flat = comm.pack %g at [128] : (tensor<8xf32>) -> tensor<256xf32>
    %mean = comm.reduce_scatter mean %flat over <"dp" = 2> for "b.grad" : tensor<256xf32> -> tensor<128xf32>
    train.accumulate %mean, @b.grad : tensor<128xf32>
    return
  }
}

// -----

// Gradients are packed from their members.
module {
  train.state trainable parameter @w : tensor<8xf32> init #train.constant<0.0> in @b at 0
  comm.bucket @b over <"dp" = 2> elements 256 chunk 128 trainable
  train.state parameter @b.param of @b : tensor<256xf32> init #train.constant<0.0>
  train.state gradient @b.grad of @b : tensor<256xf32> init #train.constant<0.0>
  func.func @micro_step(%g: tensor<256xf32>) {
    // expected-error @+1 {{adds a value to @b.grad that is no comm.pack of its members' gradients}}
    train.accumulate %g, @b.grad : tensor<256xf32>
    return
  }
}

// -----

// What is gathered for the forward does not live on into the backward.
module {
  train.state parameter @w : tensor<8xf32> init #train.constant<0.0> in @b at 0
  comm.bucket @b over <"dp" = 2> elements 256 chunk 128
  train.state parameter @b.param of @b sharded : tensor<128xf32> init #train.constant<0.0>
  func.func @micro_step(%x: tensor<4x8xf32>, %r: tensor<4xf32>) {
    %own = train.read @b.param : tensor<128xf32>
    // expected-error @+1 {{for "b.fwd" is used outside of that group}}
    %full = comm.all_gather %own over <"dp" = 2> for "b.fwd" : tensor<128xf32> -> tensor<256xf32>
    %w = comm.unpack %full at 0 : tensor<256xf32> -> tensor<8xf32>
    %y, %s = train.rms_norm %x, %w eps 1.0e-5 {train.block = "b"} : (tensor<4x8xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4xf32>)
    // expected-note @+1 {{used here, by an op of "b.bwd"}}
    %dx, %dw = train.rms_norm_grad %y, %x, %w, %r {train.backward, train.block = "b"} : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<8xf32>, tensor<4xf32>) -> (tensor<4x8xf32>, tensor<8xf32>)
    return
  }
}

// -----

// A gathered bucket is only viewed.
module {
  train.state parameter @w : tensor<8xf32> init #train.constant<0.0> in @b at 0
  comm.bucket @b over <"dp" = 2> elements 256 chunk 128
  train.state parameter @b.param of @b sharded : tensor<128xf32> init #train.constant<0.0>
  func.func @micro_step() {
    %own = train.read @b.param : tensor<128xf32>
    %full = comm.all_gather %own over <"dp" = 2> for "b.fwd" : tensor<128xf32> -> tensor<256xf32>
    // expected-error @+1 {{uses a gathered bucket, which only comm.unpack views}}
    %twice = arith.addf %full, %full {train.block = "b"} : tensor<256xf32>
    return
  }
}

// -----

// A size that wraps around 64 bits does not pass as a small one.
module {
  // expected-error @+1 {{parameter @w of 'tensor<4294967296x4294967296xf32>' has too many elements to lay out}}
  train.state parameter @w : tensor<4294967296x4294967296xf32> init #train.constant<0.0> in @b at 0
  comm.bucket @b over <"dp" = 2> elements 256 chunk 128
  train.state parameter @b.param of @b : tensor<256xf32> init #train.constant<0.0>
}
