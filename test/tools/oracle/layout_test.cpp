//===- layout_test.cpp - Names and places of tensors ----------------------===//
#include "test/tools/oracle/Program.h"
#include "tools/oracle/Initialise.h"

using namespace ciuic::oracle;

// Two ranks: @a and @b in one bucket of which each rank holds a chunk; @b
// lies across the border between them.
static const char *const kSharded = R"(
  comm.bucket @block over <"dp" = 2> elements 256 chunk 128 trainable
  train.state trainable parameter @a : tensor<3xf32>
      init #train.normal<std = 1.0> in @block at 0
  train.state trainable parameter @b : tensor<2x2xf32>
      init #train.constant<5.0> in @block at 126
  train.state parameter @block.param of @block sharded : tensor<128xbf16>
      init #train.constant<0.0>
  train.state master @block.master of @block sharded : tensor<128xf32>
      init #train.constant<0.0>
  train.state gradient @block.grad of @block : tensor<256xf32>
      init #train.constant<0.0>
  train.state moment @block.m of @block slot "exp_avg" sharded
      : tensor<128xf32> init #train.constant<0.0>
)";

static Layout makeLayout(Program &program) {
  auto layout = Layout::create(program.interpreter().getModule());
  EXPECT_TRUE(mlir::succeeded(layout));
  return std::move(*layout);
}

// Whatever the states are called, tensors have the parameters' names.
TEST(Layout, NamesMembersOfBuckets) {
  Program program(kSharded);
  ASSERT_TRUE(program.ok());
  Layout layout = makeLayout(program);
  for (const char *name : {"a", "b", "a.master", "b.master", "a.grad", "b.grad",
                           "a.exp_avg", "b.exp_avg"})
    EXPECT_TRUE(layout.find(name)) << name;
  EXPECT_EQ(layout.tensors().size(), 8u);
  EXPECT_FALSE(layout.find("block.param"));
}

// A member across two chunks is split between ranks and put together again.
TEST(Layout, MemberAcrossRanks) {
  Program program(kSharded);
  Layout layout = makeLayout(program);
  Interpreter &interpreter = program.interpreter();
  Layout::set(interpreter, *layout.find("b.master"), {1.0, 2.0, 3.0, 4.0});
  const RankValues &chunks = interpreter.state("block.master");
  EXPECT_EQ(chunks[0]->data[126], 1.0);
  EXPECT_EQ(chunks[0]->data[127], 2.0);
  EXPECT_EQ(chunks[1]->data[0], 3.0);
  EXPECT_EQ(chunks[1]->data[1], 4.0);
  EXPECT_EQ(Layout::get(interpreter, *layout.find("b.master")),
            Numbers({1.0, 2.0, 3.0, 4.0}));
}

// A whole gradient is what its ranks have on average.
TEST(Layout, WholeGradientIsTheMean) {
  Program program(kSharded);
  Layout layout = makeLayout(program);
  program.interpreter().edit("block.grad", 0)[1] = 4.0;
  program.interpreter().edit("block.grad", 1)[1] = 2.0;
  EXPECT_EQ(Layout::get(program.interpreter(), *layout.find("a.grad")),
            Numbers({0.0, 3.0, 0.0}));
}

// Initial values follow the parameter's name: a bucket changes nothing. The
// master has them before they are rounded to bf16; padding is zero.
TEST(Layout, InitialValuesIgnoreTheLayout) {
  Program sharded(kSharded, /*exact=*/false);
  Layout layout = makeLayout(sharded);
  initialise(sharded.interpreter(), layout, 9);
  Program plain(R"(train.state trainable parameter @a : tensor<3xf32>
                       init #train.normal<std = 1.0>)",
                /*exact=*/false);
  Layout plainLayout = makeLayout(plain);
  initialise(plain.interpreter(), plainLayout, 9);

  Numbers values = Layout::get(plain.interpreter(), *plainLayout.find("a"));
  Numbers master = Layout::get(sharded.interpreter(), *layout.find("a.master"));
  Numbers rounded = Layout::get(sharded.interpreter(), *layout.find("a"));
  EXPECT_EQ(master, values);
  EXPECT_NE(rounded, values);
  for (double &value : values)
    value = roundTo(Element::BF16, value);
  EXPECT_EQ(rounded, values);
  EXPECT_EQ(sharded.interpreter().state("block.param")[0]->data[3], 0.0);
  EXPECT_EQ(Layout::get(sharded.interpreter(), *layout.find("b")),
            Numbers(4, 5.0));
}

/// Whether a module of states has a layout.
static bool fits(const std::string &text) {
  Program program(text);
  return program.ok() &&
         mlir::succeeded(Layout::create(program.interpreter().getModule()));
}

TEST(Layout, RefusesStatesThatDoNotFit) {
  std::string bucket =
      "comm.bucket @b over <\"dp\" = 2> elements 256 chunk 128 trainable\n";
  std::string member = "train.state trainable parameter @w : tensor<4xf32> "
                       "init #train.constant<1.0> in @b at ";
  std::string storage = "train.state parameter @s of @b sharded : "
                        "tensor<128xf32> init #train.constant<0.0>\n";
  EXPECT_TRUE(fits(bucket + member + "252\n" + storage));
  // The member's end lies behind the bucket's.
  EXPECT_FALSE(fits(bucket + member + "253\n" + storage));
  // A shard of another size than the chunk.
  EXPECT_FALSE(fits(bucket + member +
                    "0\ntrain.state parameter @s of @b sharded : "
                    "tensor<64xf32> init #train.constant<0.0>\n"));
  // Two states that hold the parameter.
  EXPECT_FALSE(fits(bucket + member + "0\n" + storage +
                    "train.state parameter @t of @b : tensor<256xf32> init "
                    "#train.constant<0.0>\n"));
  // A state of what is no parameter and no bucket.
  EXPECT_FALSE(fits("train.state gradient @g of @nothing : tensor<4xf32> init "
                    "#train.constant<0.0>\n"));
}
