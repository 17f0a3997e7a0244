//===- TrainOps.td - All ops of the train dialect ----------*- tablegen -*-===//
#ifndef CIUIC_DIALECT_TRAIN_TRAINOPS_TD
#define CIUIC_DIALECT_TRAIN_TRAINOPS_TD

include "dialect/Train/TrainStateOps.td"
include "dialect/Train/TrainTensorOps.td"
include "dialect/Train/TrainUpdateOps.td"

#endif // CIUIC_DIALECT_TRAIN_TRAINOPS_TD
