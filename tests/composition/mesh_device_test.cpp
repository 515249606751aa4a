// SPDX-License-Identifier: Apache-2.0
// The core of the table on devices: models whose tensors lie there equal one process on the CPU, along data, shard, stage, and data x stage.
#include "mpi_test.hpp"

#include <set>

#include "mesh/compare.hpp"

namespace mesh_device_test {

using namespace tw::testing::mesh;
using tw::testing::world;

/// Tied weights, buffers, random numbers by place and by row, frozen parts, blocks.
const std::set<std::string> core{"shared parameter", "convolutional, batch norm", "dropout", "gpt", "frozen", "blocks"};

TEST(MeshDevice, CoreOfTheTableEqualsTheCpu) {
  const std::vector<tw::MeshShape> shapes{{4, {{"data", 4}}}, {4, {{"shard", 4}}}, {4, {{"stage", 4}}}, {4, {{"data", 2}, {"stage", 2}}}};
  Count count;
  uint64_t number = 0;
  for (const TableModel& model : table_models({.on_device = true})) {
    if (!core.contains(model.name)) continue;
    for (const tw::MeshShape& shape : shapes) run_cell(model, shape, Settings::drawn(tw::derived_seed(2000, ++number)), count);
  }
  EXPECT_EQ(count.equal, static_cast<int>(core.size() * shapes.size()));
  count.print("on devices");
}

}  // namespace mesh_device_test
