// RUN: ciuic-opt %s --split-input-file --verify-diagnostics --ciuic-comm-offload-parameters

// Storage is that of a bucket.
module {
  // expected-error @+1 {{parameter @b.param stores @b, which is no bucket; expected sharded IR}}
  train.state parameter @b.param of @b : tensor<256xf32> init #train.constant<0.0>
}

// -----

// What is on the host stays there.
module {
  comm.bucket @b over <"dp" = 2> elements 256 chunk 128 trainable
  // expected-error @+1 {{parameter @b.param lives on the host already}}
  train.state parameter @b.param of @b sharded : tensor<128xf32> init #train.constant<0.0> space host
}
