//===- sample_job.cpp - A job's library, as a bundle has it ---------------===//
//
// The bigram model as lib/libjob.so, for tests of loading and of the training
// loop.
//
//===----------------------------------------------------------------------===//
#include "test/runtime/job/Bigram.h"

#ifndef CIUIC_SAMPLE_LR
#define CIUIC_SAMPLE_LR 0.05
#endif

extern "C" const ciuic::abi::Bundle *ciuic_bundle() {
  static const ciuic::rt::test::Bigram sample(
      {.ranks = 2, .microBatch = 2, .sharded = true, .lr = CIUIC_SAMPLE_LR});
  return &sample.bundle;
}
