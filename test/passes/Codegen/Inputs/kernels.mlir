// Kernels whose results with infinities and NaN are known; rows of 37 elements
// have whole vectors and a rest.
module @special {
train.state scalar @x : tensor<4x37xf32> init #train.constant<0.0>
train.state scalar @y : tensor<4x37xf32> init #train.constant<0.0>
train.state scalar @w : tensor<37xf32> init #train.constant<1.0>
train.state metric @sum : tensor<4x37xf32> init #train.constant<0.0>
train.state metric @largest : tensor<4x37xf32> init #train.constant<0.0>
train.state metric @zero : tensor<4x37xf32> init #train.constant<0.0>
train.state metric @half : tensor<4x37xf32> init #train.constant<0.0>
train.state metric @brain : tensor<4x37xf32> init #train.constant<0.0>
train.state metric @normed : tensor<4x37xf32> init #train.constant<0.0>
func.func @eval_step(%tokens: tensor<1x4xi32>, %labels: tensor<1x4xi32>) {
  %x = train.read @x : tensor<4x37xf32>
  %y = train.read @y : tensor<4x37xf32>
  %w = train.read @w : tensor<37xf32>
  %s = train.sigmoid %x : tensor<4x37xf32>
  %g = arith.mulf %x, %s : tensor<4x37xf32>
  %h = arith.mulf %g, %y : tensor<4x37xf32>
  train.accumulate %h, @sum : tensor<4x37xf32>
  %most = arith.maximumf %x, %y : tensor<4x37xf32>
  train.accumulate %most, @largest : tensor<4x37xf32>
  %nothing = arith.subf %x, %x : tensor<4x37xf32>
  train.accumulate %nothing, @zero : tensor<4x37xf32>
  %twice = arith.addf %x, %x : tensor<4x37xf32>
  %half = arith.truncf %twice : tensor<4x37xf32> to tensor<4x37xf16>
  train.accumulate %half, @half : tensor<4x37xf16>
  %thrice = arith.addf %twice, %x : tensor<4x37xf32>
  %brain = arith.truncf %thrice : tensor<4x37xf32> to tensor<4x37xbf16>
  train.accumulate %brain, @brain : tensor<4x37xbf16>
  %n, %rstd = train.rms_norm %x, %w eps 1.000000e-05 : (tensor<4x37xf32>, tensor<37xf32>) -> (tensor<4x37xf32>, tensor<4xf32>)
  train.accumulate %n, @normed : tensor<4x37xf32>
  return
}
}
