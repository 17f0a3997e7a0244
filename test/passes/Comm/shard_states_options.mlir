// Options out of range are refused with what was found and what was expected.
//
// RUN: not ciuic-opt %s --ciuic-comm-shard-states="ranks=0" 2>&1 | FileCheck %s --check-prefix=RANKS
// RUN: not ciuic-opt %s --ciuic-comm-shard-states="ranks=9223372036854775807" 2>&1 | FileCheck %s --check-prefix=MANY
// RUN: not ciuic-opt %s --ciuic-comm-shard-states="stage=4" 2>&1 | FileCheck %s --check-prefix=STAGE
// RUN: not ciuic-opt %s --ciuic-comm-shard-states="stage=-1" 2>&1 | FileCheck %s --check-prefix=NEGATIVE
// RUN: not ciuic-opt %s --ciuic-comm-shard-states="persistence-threshold=-1" 2>&1 | FileCheck %s --check-prefix=THRESHOLD
// RUN: not ciuic-opt %s --ciuic-comm-shard-states="communication-type=f64" 2>&1 | FileCheck %s --check-prefix=TYPE
// RUN: not ciuic-opt %s --ciuic-comm-offload-optimizer="ratio=1.5" 2>&1 | FileCheck %s --check-prefix=RATIO
// RUN: not ciuic-opt %s --ciuic-comm-offload-optimizer="ratio=nan" 2>&1 | FileCheck %s --check-prefix=RATIO
// RUN: not ciuic-opt %s --ciuic-comm-offload-optimizer 2>&1 | FileCheck %s --check-prefix=NOTHING
// RUN: not ciuic-opt %s --ciuic-comm-recompute-blocks="count=-2" 2>&1 | FileCheck %s --check-prefix=COUNT

// RANKS: option ranks is 0, expected 1 to 1048576
// MANY: option ranks is 9223372036854775807, expected 1 to 1048576
// STAGE: option stage is 4, expected 0, 1, 2 or 3
// NEGATIVE: option stage is -1, expected 0, 1, 2 or 3
// THRESHOLD: option persistence-threshold is -1, expected 0 or more
// TYPE: option communication-type is f64, expected f32, bf16 or f16
// RATIO: option ratio is {{.*}}, expected 0 to 1
// NOTHING: has no @apply_step, whose updates the host could run
// COUNT: option count is -2, expected a number of blocks, or -1 for all of them
module {}
