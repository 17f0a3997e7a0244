// RUN: ciuic-opt %s --split-input-file --verify-diagnostics --ciuic-verify-placed

// Gradients do not live on the host.
module {
  // expected-error @+1 {{gradient @b.grad lives on the host, expected on the device: only buckets' parameters (on the host), master copies and moments can be offloaded}}
  train.state gradient @b.grad of @b : tensor<256xf32> init #train.constant<0.0> space host
}

// -----

// Neither does a parameter that lies in no bucket.
module {
  // expected-error @+1 {{parameter @w lives on the host, expected on the device}}
  train.state parameter @w : tensor<256xf32> init #train.constant<0.0> space host
}

// -----

// A bucket's optimizer states are offloaded together.
module {
  // expected-note @+1 {{@b.master is declared here}}
  train.state master @b.master of @b : tensor<256xf32> init #train.constant<0.0> space host
  // expected-error @+1 {{moment @b.m lives on the device, other states of @b on the host}}
  train.state moment @b.m of @b slot "m" : tensor<256xf32> init #train.constant<0.0>
}

// -----

// An op takes its tensors from one memory.
module {
  train.state master @b.master of @b : tensor<256xf32> init #train.constant<0.0> space host
  func.func @apply_step(%g: tensor<256xf32>) {
    %p = train.read @b.master : tensor<256xf32>
    // expected-error @+1 {{takes tensors from device and host memory; expected comm.transfer between them}}
    %next = arith.subf %p, %g : tensor<256xf32>
    return
  }
}

// -----

// A state is written from where it lives.
module {
  train.state master @b.master of @b : tensor<256xf32> init #train.constant<0.0> space host
  func.func @apply_step(%g: tensor<256xf32>) {
    // expected-error @+1 {{gives @b.master, which lives on the host, a value of device memory}}
    train.write %g, @b.master : tensor<256xf32>
    return
  }
}

// -----

// Ranks meet on the device.
module {
  train.state master @b.master of @b sharded : tensor<128xf32> init #train.constant<0.0> space host
  func.func @apply_step() {
    %p = train.read @b.master : tensor<128xf32>
    // expected-error @+1 {{works on host memory, expected comm.transfer to device before}}
    %full = comm.all_gather %p over <"dp" = 2> for "b.apply" : tensor<128xf32> -> tensor<256xf32>
    return
  }
}

// -----

// A transfer goes somewhere.
module {
  func.func @apply_step(%g: tensor<256xf32>) {
    // expected-error @+1 {{moves a value of device memory to where it is}}
    %same = comm.transfer %g to device : tensor<256xf32>
    return
  }
}

// -----

// Micro-steps compute on the device: what comes from the host is copied there
// first.
module {
  train.state parameter @b.param of @b : tensor<256xf32> init #train.constant<0.0> space host
  func.func @micro_step(%g: tensor<256xf32>) {
    %host = train.read @b.param : tensor<256xf32>
    %up = comm.transfer %host to device for "b.fwd" : tensor<256xf32>
    %good = comm.unpack %up at 0 : tensor<256xf32> -> tensor<4xf32>
    // expected-error @+1 {{works on host memory outside of @apply_step, expected comm.transfer to device before}}
    %bad = comm.unpack %host at 0 : tensor<256xf32> -> tensor<4xf32>
    return
  }
}

// -----

// What is computed again is not kept as well.
module {
  func.func @micro_step(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
    // expected-note @+1 {{the value is computed here}}
    %y = train.sigmoid %x {train.block = "b"} : tensor<4x8xf32>
    %again = train.recompute "b"(%x) {train.backward, train.block = "b"} : (tensor<4x8xf32>) -> tensor<4x8xf32> {
    ^bb0(%in: tensor<4x8xf32>):
      %z = train.sigmoid %in {train.block = "b"} : tensor<4x8xf32>
      train.yield %z : tensor<4x8xf32>
    }
    // expected-error @+1 {{keeps a forward value of block "b" alive, which is computed again}}
    %dx = arith.mulf %again, %y {train.backward, train.block = "b"} : tensor<4x8xf32>
    return %dx : tensor<4x8xf32>
  }
}

// -----

// Scalars of the device steer updates on the host: this module is in order.
module {
  train.state master @b.master of @b : tensor<256xf32> init #train.constant<0.0> space host
  train.state moment @b.m of @b slot "momentum_buffer" : tensor<256xf32> init #train.constant<0.0> space host
  train.state gradient @b.grad of @b : tensor<256xf32> init #train.constant<0.0>
  func.func @apply_step(%s: tensor<f32>) {
    %g = train.read @b.grad : tensor<256xf32>
    %gh = comm.transfer %g to host : tensor<256xf32>
    %p = train.read @b.master : tensor<256xf32>
    %m = train.read @b.m : tensor<256xf32>
    %p2, %m2 = train.sgd %p, %gh, %m lr %s coef %s skip %s {momentum = 0.9, decay = 0.0} : (tensor<256xf32>, tensor<256xf32>, tensor<256xf32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<256xf32>, tensor<256xf32>)
    train.write %p2, @b.master : tensor<256xf32>
    train.write %m2, @b.m : tensor<256xf32>
    return
  }
}

// -----

// Nothing works on what is in files; it comes to the host before.
module {
  train.state master @b.master of @b : tensor<256xf32> init #train.constant<0.0> space nvme
  func.func @apply_step() {
    %p = train.read @b.master : tensor<256xf32>
    // expected-error @+1 {{works on nvme memory, expected comm.transfer to host before}}
    %next = arith.addf %p, %p : tensor<256xf32>
    return
  }
}

// -----

// Files and devices meet on the host.
module {
  train.state master @b.master of @b : tensor<256xf32> init #train.constant<0.0> space nvme
  func.func @apply_step() {
    %p = train.read @b.master : tensor<256xf32>
    // expected-error @+1 {{moves a value from nvme to device memory, expected by way of the host}}
    %next = comm.transfer %p to device : tensor<256xf32>
    return
  }
}

// -----

// Only an optimizer's states are kept in files.
module {
  // expected-error @+1 {{gradient @b.grad lives in a file, expected on the device}}
  train.state gradient @b.grad of @b : tensor<256xf32> init #train.constant<0.0> space nvme
}

// -----

// Parameters live on the host, or on the device, not in files.
module {
  // expected-error @+1 {{parameter @b.param lives in a file, expected on the device}}
  train.state parameter @b.param of @b : tensor<256xf32> init #train.constant<0.0> space nvme
}
