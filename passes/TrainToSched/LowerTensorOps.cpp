//===- LowerTensorOps.cpp - Forward and backward ops ----------------------===//
#include "passes/TrainToSched/ProgramLowering.h"

using namespace mlir;
using namespace ciuic;
using namespace ciuic::sched;

/// The gradient of the logits may take their place: nothing reads them later.
static bool replacesLogits(train::CrossEntropyGradOp op) {
  return op.getLogits().getDefiningOp<train::LinearOp>() &&
         llvm::all_of(op.getLogits().getUsers(), [&](Operation *user) {
           return user == op || (isa<train::CrossEntropyOp>(user) &&
                                 user->isBeforeInBlock(op));
         });
}

LogicalResult ProgramLowering::lowerTensorOp(Operation *op) {
  constexpr Stream compute = Stream::Compute;
  auto named = [&](Value value, StringRef suffix) {
    return makePlace(value, nameOf(op) + suffix.str()).view(Access::Write);
  };
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](train::LinearOp linear) {
        SmallVector<ViewAttr> views = {read(linear.getX()),
                                       read(linear.getWeight()),
                                       write(linear.getResult())};
        if (linear.getBias())
          views.push_back(read(linear.getBias()));
        task(op, Kind::Gemm, compute, views, {0, 1, 0});
        return success();
      })
      .Case([&](train::MatmulOp matmul) {
        bool add = addsInPlace.contains(matmul.getResult());
        Place c = makePlace(matmul.getResult(),
                            nameOf(op) +
                                (matmul.getTransposeA() ? ".dweight" : ".dx"));
        task(op, Kind::Gemm, compute,
             {read(matmul.getA()), read(matmul.getB()),
              c.view(add ? Access::Update : Access::Write)},
             {matmul.getTransposeA(), matmul.getTransposeB(), add}, {},
             matmul.getTransposeA() ? ".dweight" : ".dx");
        return success();
      })
      .Case([&](train::EmbeddingOp embedding) {
        task(op, Kind::Embedding, compute,
             {read(embedding.getTokens()), read(embedding.getTable()),
              write(embedding.getResult())});
        return success();
      })
      .Case([&](train::EmbeddingGradOp grad) {
        task(op, Kind::EmbeddingGrad, compute,
             {read(grad.getDy()), read(grad.getTokens()),
              write(grad.getResult())},
             {0});
        return success();
      })
      .Case([&](train::ColumnSumOp sum) {
        task(op, Kind::ColumnSum, compute,
             {read(sum.getX()), named(sum.getResult(), ".dbias")}, {}, {},
             ".dbias");
        return success();
      })
      .Case([&](train::AttentionOp attention) {
        task(op, Kind::AttentionForward, compute,
             {read(attention.getQ()), read(attention.getK()),
              read(attention.getV()), write(attention.getResult()),
              named(attention.getLse(), ".lse")},
             {static_cast<int64_t>(attention.getSeq()),
              static_cast<int64_t>(attention.getHeads()),
              static_cast<int64_t>(attention.getKvHeads())},
             {attention.getScale().convertToDouble()});
        return success();
      })
      .Case([&](train::AttentionGradOp grad) {
        task(op, Kind::AttentionBackward, compute,
             {read(grad.getDy()), read(grad.getQ()), read(grad.getK()),
              read(grad.getV()), read(grad.getY()), read(grad.getLse()),
              named(grad.getDq(), ".dq"), named(grad.getDk(), ".dk"),
              named(grad.getDv(), ".dv")},
             {static_cast<int64_t>(grad.getSeq()),
              static_cast<int64_t>(grad.getHeads()),
              static_cast<int64_t>(grad.getKvHeads())},
             {grad.getScale().convertToDouble()});
        return success();
      })
      .Case([&](train::CrossEntropyOp loss) {
        task(op, Kind::CrossEntropy, compute,
             {read(loss.getLogits()), read(loss.getLabels()),
              named(loss.getLoss(), ".loss"), named(loss.getCount(), ".count"),
              named(loss.getLse(), ".lse")});
        return success();
      })
      .Case([&](train::CrossEntropyGradOp grad) {
        if (replacesLogits(grad))
          places[grad.getResult()] = placeOf(grad.getLogits());
        task(op, Kind::CrossEntropyGrad, compute,
             {read(grad.getSeed()), read(grad.getLogits()),
              read(grad.getLabels()), read(grad.getLse()),
              write(grad.getResult())});
        return success();
      })
      .Case([&](train::RMSNormOp norm) { return lowerRMSNorm(norm, {}); })
      .Case([&](train::RotaryOp rotary) { return lowerRotary(rotary); })
      .Default([](Operation *other) {
        return other->emitOpError() << "has no lowering to sched";
      });
}
