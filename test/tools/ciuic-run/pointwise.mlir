// RUN: ciuic-run %s --function float --print | FileCheck %s --check-prefix=FLOAT
// RUN: ciuic-run %s --function integer --print | FileCheck %s --check-prefix=INT
// RUN: ciuic-run %s --function rounding --print | FileCheck %s --check-prefix=ROUND
// RUN: ciuic-run %s --function rounding --print --f64 | FileCheck %s --check-prefix=EXACT
// RUN: ciuic-run %s --function special --print | FileCheck %s --check-prefix=SPECIAL
// RUN: ciuic-run %s --function compare --print | FileCheck %s --check-prefix=COMPARE

module @pointwise {

// Arithmetic and mathematics act element by element.
func.func @float() -> (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>,
                       tensor<3xf32>, tensor<2xf32>, tensor<f32>) {
  %a = arith.constant dense<[1.0, -2.0, 4.0]> : tensor<3xf32>
  %b = arith.constant dense<[0.5, 4.0, -1.0]> : tensor<3xf32>
  // FLOAT: result 0: tensor<3xf32> [1.5, 2, 3]
  %sum = arith.addf %a, %b : tensor<3xf32>
  // FLOAT: result 1: tensor<3xf32> [2, -0.5, -4]
  %quotient = arith.divf %a, %b : tensor<3xf32>
  // FLOAT: result 2: tensor<3xf32> [-1, 2, -4]
  %negated = arith.negf %a : tensor<3xf32>
  // FLOAT: result 3: tensor<3xf32> [1, 4, 4]
  %larger = arith.maximumf %a, %b : tensor<3xf32>
  // FLOAT: result 4: tensor<2xf32> [0.5, 0.25]
  %squares = arith.constant dense<[4.0, 16.0]> : tensor<2xf32>
  %rsqrt = math.rsqrt %squares : tensor<2xf32>
  // FLOAT: result 5: tensor<f32> [2.7182817]
  %one = arith.constant dense<1.0> : tensor<f32>
  %e = math.exp %one : tensor<f32>
  return %sum, %quotient, %negated, %larger, %rsqrt, %e
    : tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>,
      tensor<2xf32>, tensor<f32>
}

// Integers wrap around at their width; a true i1 is -1 with a sign.
func.func @integer() -> (tensor<2xi32>, tensor<2xi8>, tensor<1xi32>,
                         tensor<1xi32>, tensor<1xi1>) {
  // INT: result 0: tensor<2xi32> [-2147483648, 0]
  %a = arith.constant dense<[2147483647, -1]> : tensor<2xi32>
  %b = arith.constant dense<1> : tensor<2xi32>
  %sum = arith.addi %a, %b : tensor<2xi32>
  // INT: result 1: tensor<2xi8> [-1, 44]
  %wide = arith.constant dense<[255, 300]> : tensor<2xi32>
  %narrow = arith.trunci %wide : tensor<2xi32> to tensor<2xi8>
  // INT: result 2: tensor<1xi32> [-1]
  // INT: result 3: tensor<1xi32> [1]
  %true = arith.constant dense<true> : tensor<1xi1>
  %signed = arith.extsi %true : tensor<1xi1> to tensor<1xi32>
  %unsigned = arith.extui %true : tensor<1xi1> to tensor<1xi32>
  // INT: result 4: tensor<1xi1> [1]
  %minus = arith.constant dense<-1> : tensor<1xi32>
  %zero = arith.constant dense<0> : tensor<1xi32>
  %above = arith.cmpi ugt, %minus, %zero : tensor<1xi32>
  return %sum, %narrow, %signed, %unsigned, %above
    : tensor<2xi32>, tensor<2xi8>, tensor<1xi32>, tensor<1xi32>, tensor<1xi1>
}

// A result is rounded to its type, to nearest and ties to even; --f64 keeps
// it. 1 + 2^-8 lies between two bf16 and 1 + 3 * 2^-8 too: the even one wins.
func.func @rounding() -> (tensor<2xbf16>, tensor<1xf16>, tensor<1xf32>) {
  %x = arith.constant dense<[1.00390625, 1.01171875]> : tensor<2xf32>
  // ROUND: result 0: tensor<2xbf16> [1, 1.015625]
  // EXACT: result 0: tensor<2xbf16> [1.00390625, 1.01171875]
  %b = arith.truncf %x : tensor<2xf32> to tensor<2xbf16>
  // 65520 is the first number that overflows an f16.
  // ROUND: result 1: tensor<1xf16> [inf]
  // EXACT: result 1: tensor<1xf16> [65520]
  %y = arith.constant dense<65520.0> : tensor<1xf32>
  %h = arith.truncf %y : tensor<1xf32> to tensor<1xf16>
  // ROUND: result 2: tensor<1xf32> [0.33333334]
  // EXACT: result 2: tensor<1xf32> [0.3333333333333333]
  %one = arith.constant dense<1.0> : tensor<1xf32>
  %three = arith.constant dense<3.0> : tensor<1xf32>
  %third = arith.divf %one, %three : tensor<1xf32>
  return %b, %h, %third : tensor<2xbf16>, tensor<1xf16>, tensor<1xf32>
}

// NaN wins in maximumf and loses in maxnumf; infinities and -0 survive.
func.func @special() -> (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) {
  %a = arith.constant dense<[0x7FC00000, 0xFF800000, -0.0]> : tensor<3xf32>
  %b = arith.constant dense<[1.0, 2.0, 0.0]> : tensor<3xf32>
  // SPECIAL: result 0: tensor<3xf32> [nan, 2, 0]
  %maximum = arith.maximumf %a, %b : tensor<3xf32>
  // SPECIAL: result 1: tensor<3xf32> [1, 2, {{-?}}0]
  %maxnum = arith.maxnumf %a, %b : tensor<3xf32>
  // SPECIAL: result 2: tensor<3xf32> [nan, -inf, -0]
  %product = arith.mulf %a, %b : tensor<3xf32>
  return %maximum, %maxnum, %product
    : tensor<3xf32>, tensor<3xf32>, tensor<3xf32>
}

// Unordered predicates accept a NaN, ordered ones never; select takes a
// scalar condition too.
func.func @compare() -> (tensor<3xi1>, tensor<3xi1>, tensor<3xi1>,
                         tensor<3xf32>, tensor<3xf32>) {
  %a = arith.constant dense<[1.0, 2.0, 0x7FC00000]> : tensor<3xf32>
  %b = arith.constant dense<[2.0, 2.0, 2.0]> : tensor<3xf32>
  // COMPARE: result 0: tensor<3xi1> [1, 0, 0]
  %olt = arith.cmpf olt, %a, %b : tensor<3xf32>
  // COMPARE: result 1: tensor<3xi1> [0, 1, 1]
  %uge = arith.cmpf uge, %a, %b : tensor<3xf32>
  // COMPARE: result 2: tensor<3xi1> [0, 0, 1]
  %uno = arith.cmpf uno, %a, %b : tensor<3xf32>
  // COMPARE: result 3: tensor<3xf32> [1, 2, 2]
  %chosen = arith.select %olt, %a, %b : tensor<3xi1>, tensor<3xf32>
  // COMPARE: result 4: tensor<3xf32> [2, 2, 2]
  %false = arith.constant false
  %all = arith.select %false, %a, %b : tensor<3xf32>
  return %olt, %uge, %uno, %chosen, %all
    : tensor<3xi1>, tensor<3xi1>, tensor<3xi1>, tensor<3xf32>, tensor<3xf32>
}

}
