// SPDX-License-Identifier: Apache-2.0
// ParallelOptions::compute on every mesh, compared with one process under autocast.
#include "mpi_test.hpp"

#include <cstdlib>
#include <set>

#include "mesh/compare.hpp"

namespace mesh_precision_test {

using namespace tw::testing::mesh;
using tw::ComputeType;
using tw::testing::message_of;
using tw::testing::world;

std::vector<TableModel> models() {
  std::set<std::string> names{"tied", "ignored targets", "blocks", "split blocks", "layers"};
  if (std::getenv("TW_ALL_CELLS") != nullptr) names.insert("split module");
  std::vector<TableModel> models = table_models({.dtype = torch::kFloat});
  std::erase_if(models, [&](const TableModel& model) { return !names.contains(model.name); });
  EXPECT_EQ(models.size(), names.size());
  return models;
}

// Ranks that divide a sum, and parameters that differ in their last bit, round otherwise to half precision: a hundredth. A wrong weight, or a
// gradient that is missing somewhere, makes several tenths. Each cell in one of both types, or with TW_ALL_CELLS in both.
TEST(MeshPrecision, EqualsOneProcess) {
  const bool all = std::getenv("TW_ALL_CELLS") != nullptr;
  size_t cell = 0;
  for (const TableModel& model : models()) {
    for (const tw::MeshShape& shape : shapes_of(world().size())) {
      if (promise_of(model, shape).kind != Promise::Kind::equal) continue;
      const tw::Mesh mesh(world(), shape.axes());
      ++cell;
      for (const ComputeType compute : {ComputeType::bfloat16, ComputeType::float16}) {
        if (!all && (cell % 2 == 0) != (compute == ComputeType::float16)) continue;
        SCOPED_TRACE(tw::concat(model.name, " on ", shape.describe(), compute == ComputeType::float16 ? ", float16" : ", bfloat16"));
        Settings settings{.seed = 3, .micro_batches = 2, .float32 = true};
        const Outcome full = outcome_of_one_process(model, settings, shape, false);
        settings.compute = compute;
        if (compute == tw::ComputeType::float16) settings.schedule = tw::pipeline::ScheduleKind::zero_bubble_h1;
        const Outcome expected = outcome_of_one_process(model, settings, shape, false);
        const Outcome ours = outcome_of_mesh(model, settings, mesh);
        const auto [error, name] = largest_error(ours.state, expected.state);
        EXPECT_LE(error, 0.03) << name;
        EXPECT_GE(largest_error(ours.state, full.state).first, 1e-4) << "computed in float32";
        EXPECT_NEAR(ours.evaluated, expected.evaluated, 0.03 * expected.evaluated);
        for (size_t i = 0; i < ours.losses.size(); ++i) EXPECT_NEAR(ours.losses[i], expected.losses[i], 0.01 * expected.losses[i]);
      }
    }
  }
}

TEST(MeshPrecision, RefusesOtherParametersThanFloat32) {
  const TableModel model = table_models().front();
  const tw::Mesh mesh(world(), {{"data"}});
  const std::string error = message_of([&] { (void)model.parallel(mesh, {.compute = ComputeType::bfloat16}); });
  EXPECT_NE(error.find("mixed precision is for models with float32 parameters"), std::string::npos) << error;
}

}  // namespace mesh_precision_test
