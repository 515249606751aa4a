// SPDX-License-Identifier: Apache-2.0
#include "step_agreement.hpp"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <string>

#include "mesh_axes.hpp"
#include "message_of.hpp"

namespace step_agreement_test {

using tw::BatchFacts;
using tw::update_of;
using tw::testing::message_of;

BatchFacts facts(int64_t rows, double weight) { return {.rows = rows, .weight = weight, .knows_weight = true}; }

void expect_contains(const std::string& text, const std::string& part) { EXPECT_NE(text.find(part), std::string::npos) << text; }

TEST(UpdateOf, SumsRowsAndWeightsOncePerPlace) {
  // Two places, of two stages: the first stage knows the rows alone, the last one the weight.
  BatchFacts first{.rows = 4, .inputs = 7};
  BatchFacts other{.rows = 0};
  const tw::Update update = update_of({first, facts(4, 2.5), other, facts(0, 0)}, {0, 0, 1, 1});
  EXPECT_EQ(update.rows, (std::vector<int64_t>{4, 0}));
  EXPECT_EQ(update.all_rows, 4);
  EXPECT_EQ(update.weight, 2.5);
  // Split layers: all ranks of a place know everything.
  EXPECT_EQ(update_of({facts(3, 3), facts(3, 3), facts(2, 2), facts(2, 2)}, {0, 0, 1, 1}).weight, 5);
  // Inner stages know nothing.
  EXPECT_EQ(update_of({first, BatchFacts(), facts(4, 4)}, {0, 0, 0}).all_rows, 4);
}

TEST(UpdateOf, NamesRanksWhoseBatchesDoNotFit) {
  const auto refused = [](const std::vector<BatchFacts>& all, const std::vector<int>& places) { return message_of([&] { update_of(all, places); }); };
  expect_contains(refused({facts(3, 3), facts(4, 4)}, {0, 0}), "ranks 0 and 1 hold a model together, but their batches have 3 and 4 rows");
  BatchFacts one = facts(3, 3);
  BatchFacts two = facts(3, 3);
  one.inputs = 5;
  two.inputs = 6;
  expect_contains(refused({one, two}, {0, 0}), "ranks 0 and 1 hold a model together, but their batches differ");
  EXPECT_EQ(refused({one, two}, {0, 1}), "nothing thrown");
  expect_contains(refused({facts(3, 3), {.rows = BatchFacts::uneven}}, {0, 1}), "the inputs and targets of rank 1 have different numbers of rows");
  expect_contains(refused({facts(3, 3), BatchFacts()}, {0, 1}), "no rank at place 1 along `data` and `shard` has a batch");
  expect_contains(refused({{.rows = 3}}, {0}), "no rank at place 0 along `data` and `shard` has targets");
  expect_contains(refused({facts(0, 0)}, {0}), "no rank has samples");
  expect_contains(refused({facts(3, 0)}, {0}), "no target counts");
}

TEST(FactsOf, ReadsABatch) {
  const tw::Loss loss = [](const at::Tensor& y, const at::Tensor& /*t*/) { return y.mean(); };
  const at::Tensor x = torch::randn({3, 2});
  const BatchFacts whole = tw::facts_of({x}, {x}, loss, true);
  EXPECT_EQ(whole.rows, 3);
  EXPECT_EQ(whole.weight, 3);
  EXPECT_NE(whole.inputs, 0);
  EXPECT_EQ(whole.inputs, tw::facts_of({x.clone()}, {x}, loss, true).inputs);
  EXPECT_NE(whole.inputs, tw::facts_of({x + 1}, {x}, loss, true).inputs);
  EXPECT_EQ(tw::facts_of({x}, {x}, loss, false).inputs, 0);
  EXPECT_EQ(tw::facts_of({at::Tensor()}, {at::Tensor()}, loss, true).rows, BatchFacts::unknown);
  EXPECT_FALSE(tw::facts_of({x}, {at::Tensor()}, loss, true).knows_weight);
  EXPECT_EQ(tw::facts_of({x}, {x.narrow(0, 0, 2)}, loss, true).rows, BatchFacts::uneven);
  EXPECT_EQ(tw::facts_of({x, x.narrow(0, 0, 2)}, {x}, loss, true).rows, BatchFacts::uneven);
  EXPECT_EQ(tw::facts_of({x.narrow(0, 0, 0)}, {x.narrow(0, 0, 0)}, loss, true).weight, 0);
}

TEST(MeshAxes, AreThoseThatDivideModels) {
  const tw::MeshShape shape(8, {{"data", 2}, {"stage", 1}, {"tensor", 4}});
  EXPECT_EQ(tw::size_along(shape, "tensor"), 4);
  EXPECT_EQ(tw::size_along(shape, "layer"), 1);
  EXPECT_EQ(tw::nontrivial_axes(shape, {"stage", "tensor", "layer"}), std::vector<std::string>{"tensor"});
  EXPECT_EQ(message_of([&] { tw::expect_axes(shape, {{"stage", "no"}}); }), "nothing thrown");
  expect_contains(message_of([&] { tw::expect_axes(shape, {{"tensor", "nothing is split"}}); }),
                  "the mesh is data=2 x stage=1 x tensor=4, but nothing is split");
  expect_contains(message_of([] { tw::expect_axes(tw::MeshShape(2, {{"search", 2}}), {}); }), "has an axis 'search'");
}

}  // namespace step_agreement_test
