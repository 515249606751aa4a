// SPDX-License-Identifier: Apache-2.0
// The core of the table on devices: models whose tensors lie there equal one process on the CPU, along data, shard, stage, and data x stage.
#include "mpi_test.hpp"

#include <cstdlib>
#include <set>

#include "mesh/compare.hpp"

namespace mesh_device_test {

using namespace tw::testing::mesh;
using tw::testing::world;

/// Tied weights, buffers, random numbers by place and by row, frozen parts, blocks.
const std::set<std::string> core{"shared parameter", "convolutional, batch norm", "dropout", "gpt", "frozen", "blocks"};

/// TW_ALL_CELLS: every model on every mesh, as make accept runs it. Otherwise each on one.
TEST(MeshDevice, CoreOfTheTableEqualsTheCpu) {
  const bool all = std::getenv("TW_ALL_CELLS") != nullptr;
  const std::vector<tw::MeshShape> shapes{{4, {{"data", 2}, {"stage", 2}}}, {4, {{"data", 4}}}, {4, {{"shard", 4}}}, {4, {{"stage", 4}}}};
  Count count;
  size_t models = 0;
  for (const TableModel& model : table_models({.on_device = true})) {
    if (!core.contains(model.name)) continue;
    for (size_t i = 0; i < shapes.size(); ++i) {
      if (all || i == models % shapes.size()) run_cell(model, shapes[i], Settings::drawn(tw::derived_seed(2000 + i, models)), count);
    }
    ++models;
  }
  EXPECT_EQ(count.equal, static_cast<int>(all ? core.size() * shapes.size() : core.size()));
  count.print("on devices");
}

TEST(MeshDevice, RefusesOneCopyOfParametersInTheMemoryOfTheHost) {
  const TableModel model = table_models({.on_device = true}).front();
  const tw::Mesh mesh(world(), {{"shard", -1}});
  const std::string error = tw::testing::message_of([&] { (void)model.parallel(mesh, {.one_copy_per_node = true}); });
  EXPECT_NE(error.find("one_copy_per_node needs parameters on the CPU"), std::string::npos) << error;
}

TEST(MeshDevice, SplitLayersInStagesEqualTheCpu) {
  Count count;
  const std::vector<TableModel> models = table_models({.on_device = true});
  const auto model = std::ranges::find(models, "split module", &TableModel::name);
  run_cell(*model, {4, {{"stage", 2}, {"tensor", 2}}}, Settings::drawn(1), count);
  EXPECT_EQ(count.equal, 1);
}

}  // namespace mesh_device_test
