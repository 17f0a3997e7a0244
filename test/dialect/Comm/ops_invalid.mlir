// RUN: ciuic-opt %s --split-input-file --verify-diagnostics

// (C1) of bucket: chunks, one a rank, are the whole.
// expected-error @+1 {{has 512 elements in chunks of 128; expected 2 chunks, one a rank of axis "dp"}}
comm.bucket @b over <"dp" = 2> elements 512 chunk 128

// -----

// (C1) of bucket: no bucket is empty.
// expected-error @+1 {{has 0 elements in chunks of 0}}
comm.bucket @b over <"dp" = 2> elements 0 chunk 0

// -----

// (C2) of bucket: chunks are aligned.
// expected-error @+1 {{has a chunk of 100 elements, expected a multiple of 128}}
comm.bucket @b over <"dp" = 2> elements 200 chunk 100

// -----

// An axis has a name.
// expected-error @+1 {{axis name must not be empty}}
comm.bucket @b over <"" = 2> elements 256 chunk 128

// -----

// An axis has at least one rank.
// expected-error @+1 {{axis "dp" has size 0, expected at least 1}}
comm.bucket @b over <"dp" = 0> elements 256 chunk 128

// -----

// (C1) of unpack: one element type.
func.func @unpack_type(%full: tensor<256xf32>) {
  // expected-error @+1 {{takes 'tensor<8xbf16>' from 'tensor<256xf32>'; expected one dimension and one element type}}
  %w = comm.unpack %full at 0 : tensor<256xf32> -> tensor<8xbf16>
  return
}

// -----

// (C1) of unpack: buckets are flat.
func.func @unpack_flat(%full: tensor<2x128xf32>) {
  // expected-error @+1 {{expected one dimension and one element type}}
  %w = comm.unpack %full at 0 : tensor<2x128xf32> -> tensor<8xf32>
  return
}

// -----

// (C2) of unpack: the member lies inside.
func.func @unpack_outside(%full: tensor<256xf32>) {
  // expected-error @+1 {{takes 256 elements at 128 from a bucket of 256}}
  %w = comm.unpack %full at 128 : tensor<256xf32> -> tensor<16x16xf32>
  return
}

// -----

// (C2) of unpack: an offset near the largest number does not wrap around.
func.func @unpack_wraps(%full: tensor<256xf32>) {
  // expected-error @+1 {{takes 8 elements at 9223372036854775807 from a bucket of 256}}
  %w = comm.unpack %full at 9223372036854775807 : tensor<256xf32> -> tensor<8xf32>
  return
}

// -----

// (C1) of pack: one element type.
func.func @pack_type(%w: tensor<8xbf16>) {
  // expected-error @+1 {{packs 'tensor<8xbf16>' into 'tensor<256xf32>'; expected one element type}}
  %flat = comm.pack %w at [0] : (tensor<8xbf16>) -> tensor<256xf32>
  return
}

// -----

// (C1) of pack: the result is flat.
func.func @pack_flat(%w: tensor<8xf32>) {
  // expected-error @+1 {{result has type 'tensor<2x128xf32>', expected one dimension}}
  %flat = comm.pack %w at [0] : (tensor<8xf32>) -> tensor<2x128xf32>
  return
}

// -----

// (C2) of pack: members do not overlap.
func.func @pack_overlap(%a: tensor<130xf32>, %b: tensor<8xf32>) {
  // expected-error @+1 {{lays 'tensor<8xf32>' at 128, outside of [130, 256)}}
  %flat = comm.pack %a, %b at [0, 128] : (tensor<130xf32>, tensor<8xf32>) -> tensor<256xf32>
  return
}

// -----

// (C2) of pack: members rise.
func.func @pack_order(%a: tensor<8xf32>, %b: tensor<8xf32>) {
  // expected-error @+1 {{lays 'tensor<8xf32>' at 0, outside of [136, 256)}}
  %flat = comm.pack %a, %b at [128, 0] : (tensor<8xf32>, tensor<8xf32>) -> tensor<256xf32>
  return
}

// -----

// (C2) of pack: members lie inside.
func.func @pack_outside(%a: tensor<200xf32>) {
  // expected-error @+1 {{lays 'tensor<200xf32>' at 128, outside of [0, 256)}}
  %flat = comm.pack %a at [128] : (tensor<200xf32>) -> tensor<256xf32>
  return
}

// -----

// Members and offsets come in pairs.
func.func @pack_count(%a: tensor<8xf32>) {
  // expected-error @+1 {{has 1 members at 2 offsets}}
  %flat = comm.pack %a at [0, 128] : (tensor<8xf32>) -> tensor<256xf32>
  return
}

// -----

// (C1) of chunk: as many chunks as ranks.
func.func @chunk_share(%full: tensor<256xf32>) {
  // expected-error @+1 {{has a whole of 256 and a chunk of 128 elements; expected 4 chunks, one a rank of axis "dp"}}
  %own = comm.chunk %full of <"dp" = 4> : tensor<256xf32> -> tensor<128xf32>
  return
}

// -----

// (C1) of all_gather: one element type.
func.func @gather_type(%own: tensor<128xf32>) {
  // expected-error @+1 {{expected one dimension and one element type}}
  %full = comm.all_gather %own over <"dp" = 2> for "fwd" : tensor<128xf32> -> tensor<256xbf16>
  return
}

// -----

// (C2) of all_gather: the whole is one chunk a rank.
func.func @gather_share(%own: tensor<128xf32>) {
  // expected-error @+1 {{has a whole of 384 and a chunk of 128 elements; expected 2 chunks}}
  %full = comm.all_gather %own over <"dp" = 2> for "fwd" : tensor<128xf32> -> tensor<384xf32>
  return
}

// -----

// (C3) of all_gather: it serves a use-group.
func.func @gather_use(%own: tensor<128xf32>) {
  // expected-error @+1 {{names no use-group, expected for "..."}}
  %full = comm.all_gather %own over <"dp" = 2> for "" : tensor<128xf32> -> tensor<256xf32>
  return
}

// -----

// (C1) of reduce_scatter: one element type.
func.func @scatter_type(%full: tensor<256xf32>) {
  // expected-error @+1 {{expected one dimension and one element type}}
  %own = comm.reduce_scatter mean %full over <"dp" = 2> for "grad" : tensor<256xf32> -> tensor<128xbf16>
  return
}

// -----

// (C2) of reduce_scatter: the chunk is one of as many as ranks.
func.func @scatter_share(%full: tensor<256xf32>) {
  // expected-error @+1 {{has a whole of 256 and a chunk of 256 elements; expected 2 chunks}}
  %own = comm.reduce_scatter mean %full over <"dp" = 2> for "grad" : tensor<256xf32> -> tensor<256xf32>
  return
}

// -----

// (C1) of all_reduce: it serves a use-group.
func.func @reduce_use(%x: tensor<f32>) {
  // expected-error @+1 {{names no use-group, expected for "..."}}
  %sum = comm.all_reduce sum %x over <"dp" = 2> for "" : tensor<f32>
  return
}

// -----

// (C1) of transfer: a use-group has a name.
func.func @no_use(%x: tensor<128xf32>) {
  // expected-error @+1 {{names no use-group, expected for "..."}}
  %up = comm.transfer %x to device for "" : tensor<128xf32>
  return
}
