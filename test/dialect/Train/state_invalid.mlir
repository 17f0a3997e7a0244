// RUN: ciuic-opt %s --split-input-file --verify-diagnostics

// (C1) only symbolic initialisers: a dense constant never gets into a file.
// expected-error @below {{initialiser is dense<1.000000e+00> : tensor<4xf32>, expected #train.constant, #train.normal or #train.rope}}
train.state parameter @w : tensor<4xf32> init dense<1.0> : tensor<4xf32>

// -----

// (C2) a gradient says of what.
// expected-error @below {{with role gradient names no parameter; expected 'of @...'}}
train.state gradient @g : tensor<4xf32> init #train.constant<0.0>

// -----

// (C2) and so does a master,
// expected-error @below {{with role master names no parameter; expected 'of @...'}}
train.state master @m : tensor<4xf32> init #train.constant<0.0>

// -----

// (C2) and a moment.
// expected-error @below {{with role moment names no parameter; expected 'of @...'}}
train.state moment @m slot "exp_avg" : tensor<4xf32> init #train.constant<0.0>

// -----

// (C2) a table belongs to nothing.
// expected-error @below {{with role table belongs to no parameter, found 'of @w'}}
train.state table @t of @w : tensor<4xf32> init #train.constant<0.0>

// -----

// (C3) only parameters are trained,
// expected-error @below {{with role metric is trainable; only a parameter can be}}
train.state trainable metric @m : tensor<f32> init #train.constant<0.0>

// -----

// (C3) and lie in buckets.
// expected-error @below {{with role gradient is in a bucket; only a parameter can be}}
train.state gradient @g of @w : tensor<4xf32> init #train.constant<0.0> in @b at 0

// -----

// (C4) a rotary table has a column for each pair of features,
// expected-error @below {{rotary table of dim 16 fills a tensor of T x 8, found 'tensor<32x16xf32>'}}
train.state table @rope.cos : tensor<32x16xf32> init #train.rope<part = cos, dim = 16, theta = 1.0e4, scaling = none>

// -----

// (C4) and a row for each position.
// expected-error @below {{rotary table of dim 16 fills a tensor of T x 8, found 'tensor<8xf32>'}}
train.state table @rope.cos : tensor<8xf32> init #train.rope<part = cos, dim = 16, theta = 1.0e4, scaling = none>

// -----

// (C5) a place in a bucket is not before its start,
// expected-error @below {{needs both a bucket and an element offset of 0 or more}}
train.state parameter @w : tensor<4xf32> init #train.constant<0.0> in @b at -1

// -----

// (C5) and has both parts.
// expected-error @below {{needs both a bucket and an element offset of 0 or more}}
"train.state"() <{sym_name = "w", role = #train<role parameter>, type = tensor<4xf32>, init = #train.constant<0.0>, bucket = @b}> : () -> ()

// -----

// (C6) a moment's slot tells it from the others,
// expected-error @below {{with role moment has no slot; moments have one, others none}}
train.state moment @m of @w : tensor<4xf32> init #train.constant<0.0>

// -----

// (C6) which have none.
// expected-error @below {{with role gradient has slot; moments have one, others none}}
train.state gradient @g of @w slot "exp_avg" : tensor<4xf32> init #train.constant<0.0>

// -----

// Roles and spaces are words of a list.
// expected-error @below {{expected ::ciuic::train::Role to be one of: parameter, gradient, master, moment, table, metric, scalar}}
// expected-error @below {{failed to parse Train_RoleAttr parameter 'value'}}
train.state weights @w : tensor<4xf32> init #train.constant<0.0>

// -----

// Shapes are static.
// expected-error @below {{attribute 'type' failed to satisfy constraint}}
train.state parameter @w : tensor<?xf32> init #train.constant<0.0>

// -----

// Deviations are not negative,
// expected-error @below {{standard deviation is -1.000000e+00, expected a finite number of at least 0}}
train.state parameter @w : tensor<4xf32> init #train.normal<std = -1.0>

// -----

// and finite.
// expected-error @below {{standard deviation is INF, expected a finite number of at least 0}}
train.state parameter @w : tensor<4xf32> init #train.normal<std = 0x7FF0000000000000>

// -----

// Features are rotated in pairs.
// expected-error @below {{rotary dim is 15, expected an even number of at least 2}}
train.state table @t : tensor<4x7xf32> init #train.rope<part = cos, dim = 15, theta = 1.0e4, scaling = none>

// -----

// Theta is positive.
// expected-error @below {{rotary theta is 0.000000e+00, expected a finite positive number}}
train.state table @t : tensor<4x8xf32> init #train.rope<part = cos, dim = 16, theta = 0.0, scaling = none>

// -----

// Scaling stretches.
// expected-error @below {{rotary factor is 5.000000e-01, expected a finite number of at least 1}}
train.state table @t : tensor<4x8xf32> init #train.rope<part = cos, dim = 16, theta = 1.0e4, scaling = linear, factor = 0.5>

// -----

// llama3's bands do not overlap.
// expected-error @below {{llama3 scaling has low 4.000000e+00, high 1.000000e+00 and original 8192, expected 0 < low < high and original of at least 1}}
train.state table @t : tensor<4x8xf32> init #train.rope<part = cos, dim = 16, theta = 1.0e4, scaling = llama3, factor = 8.0, low = 4.0, high = 1.0>
