// SPDX-License-Identifier: Apache-2.0
// One rank fails in a step: all ranks throw, wherever they wait, and the user's mesh stays usable.
#include "message_of.hpp"
#include "mpi_test.hpp"

#include <stdexcept>

#include "mesh/cells.hpp"

namespace mesh_failures_test {

using namespace tw::testing::mesh;
using tw::testing::message_of;
using tw::testing::world;

void expect_contains(const std::string& text, const std::string& part) { EXPECT_NE(text.find(part), std::string::npos) << text; }

// Errors that all ranks find before the passes leave the model as it was.
TEST(MeshFailures, OfAllRanksAlikeLetTheNextStepFollow) {
  const TableModel model = table_models().front();
  const tw::Mesh mesh(world(), {{"data", -1}});
  Parallel parallel = model.parallel(mesh, {});
  const Batch batch = model.batch(4);
  const auto step = [&](const Tensors& inputs) { return parallel.model.train_step(inputs, batch.targets, model.loss()); };
  expect_contains(message_of([&] { step({batch.inputs[0].narrow(0, 0, 3)}); }), "have different numbers of rows");
  expect_contains(message_of([&] { parallel.model.clip_grad_norm(0); }), "max_norm must be positive");
  EXPECT_GT(step(batch.inputs), 0);
}

TEST(MeshFailures, OfOneRankEndTheStepOnAll) {
  const int last = world().size() - 1;
  for (const TableModel& model : table_models()) {
    if (model.name != "gpt" && model.name != "split blocks" && model.name != "layers") continue;
    for (const tw::MeshShape& shape : shapes_of(world().size())) {
      if (promise_of(model, shape).kind != Promise::Kind::equal) continue;
      SCOPED_TRACE(model.name + " on " + shape.describe());
      const tw::Mesh mesh(world(), shape.axes());
      const Settings settings{.seed = 3, .micro_batches = 2};
      Parallel parallel = model.parallel(mesh, settings.options());
      const auto step = [&](const tw::Loss& loss) {
        torch::manual_seed(static_cast<uint64_t>(parallel.model.place()));
        const Batch batch = model.batch(4);
        return parallel.model.train_step(batch.inputs, batch.targets, loss);
      };
      EXPECT_GT(step(model.loss()), 0);
      int calls = 0;
      const tw::Loss broken = [&, loss = model.loss()](const Tensors& y, const Tensors& t) {
        if (world().rank() == last && ++calls == 2) throw std::runtime_error("the loss is broken");
        return loss.mean(y, t);
      };
      expect_contains(message_of([&] { step(broken); }), "the loss is broken");
      expect_contains(message_of([&] { step(model.loss()); }), "a call of this model has failed");
      const bool has_split_layers = along(shape, "tensor") > 1;  // they communicate on the user's mesh
      EXPECT_EQ(mesh.comm().revoked(), false);
      if (!has_split_layers) mesh[shape.axes().front().name].barrier();
      world().barrier();
    }
  }
}

}  // namespace mesh_failures_test
