// A step of one device: an embedding, one layer of a norm and a biased linear,
// and a head that is tied to the embedding. 4 tokens, 8 features, 16 words.
module @two_blocks {
  train.state trainable parameter @embed.weight : tensor<16x8xf32> init #train.normal<std = 0.02>
  train.state trainable parameter @layers.0.norm.weight : tensor<8xf32> init #train.constant<1.0>
  train.state trainable parameter @layers.0.proj.weight : tensor<8x8xf32> init #train.normal<std = 0.02>
  train.state trainable parameter @layers.0.proj.bias : tensor<8xf32> init #train.constant<0.0>
  train.state gradient @embed.weight.grad of @embed.weight : tensor<16x8xf32> init #train.constant<0.0>
  train.state gradient @layers.0.norm.weight.grad of @layers.0.norm.weight : tensor<8xf32> init #train.constant<0.0>
  train.state gradient @layers.0.proj.weight.grad of @layers.0.proj.weight : tensor<8x8xf32> init #train.constant<0.0>
  train.state gradient @layers.0.proj.bias.grad of @layers.0.proj.bias : tensor<8xf32> init #train.constant<0.0>
  train.state moment @embed.weight.exp_avg of @embed.weight slot "exp_avg" : tensor<16x8xf32> init #train.constant<0.0>
  train.state moment @embed.weight.exp_avg_sq of @embed.weight slot "exp_avg_sq" : tensor<16x8xf32> init #train.constant<0.0>
  train.state moment @layers.0.norm.weight.exp_avg of @layers.0.norm.weight slot "exp_avg" : tensor<8xf32> init #train.constant<0.0>
  train.state moment @layers.0.norm.weight.exp_avg_sq of @layers.0.norm.weight slot "exp_avg_sq" : tensor<8xf32> init #train.constant<0.0>
  train.state moment @layers.0.proj.weight.exp_avg of @layers.0.proj.weight slot "exp_avg" : tensor<8x8xf32> init #train.constant<0.0>
  train.state moment @layers.0.proj.weight.exp_avg_sq of @layers.0.proj.weight slot "exp_avg_sq" : tensor<8x8xf32> init #train.constant<0.0>
  train.state moment @layers.0.proj.bias.exp_avg of @layers.0.proj.bias slot "exp_avg" : tensor<8xf32> init #train.constant<0.0>
  train.state moment @layers.0.proj.bias.exp_avg_sq of @layers.0.proj.bias slot "exp_avg_sq" : tensor<8xf32> init #train.constant<0.0>
  train.state metric @metric.loss : tensor<f32> init #train.constant<0.0>
  train.state metric @metric.tokens : tensor<f32> init #train.constant<0.0>
  train.state scalar @step : tensor<i32> init #train.constant<0.0>
  train.state scalar @report.loss : tensor<f32> init #train.constant<0.0>

  func.func @micro_step(%tokens: tensor<1x4xi32>, %labels: tensor<1x4xi32>) {
    %embed = train.read @embed.weight : tensor<16x8xf32>
    %norm = train.read @layers.0.norm.weight : tensor<8xf32>
    %w = train.read @layers.0.proj.weight : tensor<8x8xf32>
    %b = train.read @layers.0.proj.bias : tensor<8xf32>
    %x = train.embedding %tokens in %embed {train.block = "embed"} : (tensor<1x4xi32>, tensor<16x8xf32>) -> tensor<4x8xf32>
    %n, %rstd = train.rms_norm %x, %norm eps 1.000000e-05 {train.block = "layers.0"} : (tensor<4x8xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4xf32>)
    %p = train.linear %n, %w bias %b {train.block = "layers.0"} : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
    %y = arith.addf %x, %p {train.block = "layers.0"} : tensor<4x8xf32>
    %logits = train.linear %y, %embed {train.block = "head"} : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
    %loss, %count, %lse = train.cross_entropy %logits, %labels {train.block = "head"} : (tensor<4x16xf32>, tensor<1x4xi32>) -> (tensor<f32>, tensor<f32>, tensor<4xf32>)
    train.accumulate %loss, @metric.loss : tensor<f32>
    train.accumulate %count, @metric.tokens : tensor<f32>
    %seed = arith.constant {train.backward, train.block = "head"} dense<0.125> : tensor<f32>
    %dlogits = train.cross_entropy_grad %seed, %logits, %labels, %lse {train.backward, train.block = "head"} : (tensor<f32>, tensor<4x16xf32>, tensor<1x4xi32>, tensor<4xf32>) -> tensor<4x16xf32>
    %dy = train.matmul %dlogits, %embed {train.backward, train.block = "head"} : (tensor<4x16xf32>, tensor<16x8xf32>) -> tensor<4x8xf32>
    %dhead = train.matmul %dlogits transposed, %y {train.backward, train.block = "head"} : (tensor<4x16xf32>, tensor<4x8xf32>) -> tensor<16x8xf32>
    %dn = train.matmul %dy, %w {train.backward, train.block = "layers.0"} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %dw = train.matmul %dy transposed, %n {train.backward, train.block = "layers.0"} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
    train.accumulate %dw, @layers.0.proj.weight.grad : tensor<8x8xf32>
    %db = train.column_sum %dy {train.backward, train.block = "layers.0"} : (tensor<4x8xf32>) -> tensor<8xf32>
    train.accumulate %db, @layers.0.proj.bias.grad : tensor<8xf32>
    %dxn, %dnorm = train.rms_norm_grad %dn, %x, %norm, %rstd {train.backward, train.block = "layers.0"} : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<8xf32>, tensor<4xf32>) -> (tensor<4x8xf32>, tensor<8xf32>)
    train.accumulate %dnorm, @layers.0.norm.weight.grad : tensor<8xf32>
    %dx = arith.addf %dy, %dxn {train.backward, train.block = "layers.0"} : tensor<4x8xf32>
    %dtable = train.embedding_grad %dx at %tokens {train.backward, train.block = "embed"} : (tensor<4x8xf32>, tensor<1x4xi32>) -> tensor<16x8xf32>
    %dembed = arith.addf %dhead, %dtable {train.backward, train.block = "embed"} : tensor<16x8xf32>
    train.accumulate %dembed, @embed.weight.grad : tensor<16x8xf32>
    return
  }

  func.func @apply_step() {
    %g0 = train.read @embed.weight.grad : tensor<16x8xf32>
    %g1 = train.read @layers.0.norm.weight.grad : tensor<8xf32>
    %g2 = train.read @layers.0.proj.weight.grad : tensor<8x8xf32>
    %g3 = train.read @layers.0.proj.bias.grad : tensor<8xf32>
    %tokens = train.read @metric.tokens : tensor<f32>
    %loss = train.read @metric.loss : tensor<f32>
    %step = train.read @step : tensor<i32>
    %one = arith.constant dense<1.0> : tensor<f32>
    %sq = train.square_sum %g0, %g1, %g2, %g3 : (tensor<16x8xf32>, tensor<8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<f64>
    %coef, %norm, %skip = train.grad_scale %sq, %tokens, %one slots 8.0 clip 1.0 : (tensor<f64>, tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>, tensor<f32>)
    %lr = train.learning_rate %step by <kind = constant, base = 1.000000e-03> : (tensor<i32>) -> tensor<f32>
    %p0 = train.read @embed.weight : tensor<16x8xf32>
    %m0 = train.read @embed.weight.exp_avg : tensor<16x8xf32>
    %v0 = train.read @embed.weight.exp_avg_sq : tensor<16x8xf32>
    %np0, %nm0, %nv0 = train.adam %p0, %g0, %m0, %v0 lr %lr coef %coef step %step skip %skip {beta1 = 0.9, beta2 = 0.999, eps = 1.0e-8, decay = 0.1, decoupled, bias_correction} : (tensor<16x8xf32>, tensor<16x8xf32>, tensor<16x8xf32>, tensor<16x8xf32>, tensor<f32>, tensor<f32>, tensor<i32>, tensor<f32>) -> (tensor<16x8xf32>, tensor<16x8xf32>, tensor<16x8xf32>)
    train.write %np0, @embed.weight : tensor<16x8xf32>
    train.write %nm0, @embed.weight.exp_avg : tensor<16x8xf32>
    train.write %nv0, @embed.weight.exp_avg_sq : tensor<16x8xf32>
    %p1 = train.read @layers.0.norm.weight : tensor<8xf32>
    %m1 = train.read @layers.0.norm.weight.exp_avg : tensor<8xf32>
    %v1 = train.read @layers.0.norm.weight.exp_avg_sq : tensor<8xf32>
    %np1, %nm1, %nv1 = train.adam %p1, %g1, %m1, %v1 lr %lr coef %coef step %step skip %skip {beta1 = 0.9, beta2 = 0.999, eps = 1.0e-8, decay = 0.0, decoupled, bias_correction} : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<f32>, tensor<i32>, tensor<f32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>)
    train.write %np1, @layers.0.norm.weight : tensor<8xf32>
    train.write %nm1, @layers.0.norm.weight.exp_avg : tensor<8xf32>
    train.write %nv1, @layers.0.norm.weight.exp_avg_sq : tensor<8xf32>
    %p2 = train.read @layers.0.proj.weight : tensor<8x8xf32>
    %m2 = train.read @layers.0.proj.weight.exp_avg : tensor<8x8xf32>
    %v2 = train.read @layers.0.proj.weight.exp_avg_sq : tensor<8x8xf32>
    %np2, %nm2, %nv2 = train.adam %p2, %g2, %m2, %v2 lr %lr coef %coef step %step skip %skip {beta1 = 0.9, beta2 = 0.999, eps = 1.0e-8, decay = 0.1, decoupled, bias_correction} : (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<f32>, tensor<f32>, tensor<i32>, tensor<f32>) -> (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>)
    train.write %np2, @layers.0.proj.weight : tensor<8x8xf32>
    train.write %nm2, @layers.0.proj.weight.exp_avg : tensor<8x8xf32>
    train.write %nv2, @layers.0.proj.weight.exp_avg_sq : tensor<8x8xf32>
    %p3 = train.read @layers.0.proj.bias : tensor<8xf32>
    %m3 = train.read @layers.0.proj.bias.exp_avg : tensor<8xf32>
    %v3 = train.read @layers.0.proj.bias.exp_avg_sq : tensor<8xf32>
    %np3, %nm3, %nv3 = train.adam %p3, %g3, %m3, %v3 lr %lr coef %coef step %step skip %skip {beta1 = 0.9, beta2 = 0.999, eps = 1.0e-8, decay = 0.0, decoupled, bias_correction} : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<f32>, tensor<i32>, tensor<f32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>)
    train.write %np3, @layers.0.proj.bias : tensor<8xf32>
    train.write %nm3, @layers.0.proj.bias.exp_avg : tensor<8xf32>
    train.write %nv3, @layers.0.proj.bias.exp_avg_sq : tensor<8xf32>
    %next = train.advance %step unless %skip : (tensor<i32>, tensor<f32>) -> tensor<i32>
    train.write %next, @step : tensor<i32>
    %most = arith.maximumf %tokens, %one : tensor<f32>
    %mean = arith.divf %loss, %most : tensor<f32>
    train.write %mean, @report.loss : tensor<f32>
    return
  }
}
