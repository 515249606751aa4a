// SPDX-License-Identifier: Apache-2.0
// Forty modules of the generator on meshes of `data`, `shard` and `stage`: each equals one process, or is refused with the reason why it cannot be
// cut. Errors are bounded as in the table, by at most 1e-9.
#include "mpi_test.hpp"

#include <cstdlib>

#include "mesh/compare.hpp"
#include "mesh/random_models.hpp"

namespace mesh_random_test {

using namespace tw::testing::mesh;
using tw::testing::world;

bool runs_all() { return std::getenv("TW_ALL_CELLS") != nullptr; }

/// Meshes without the axes for which models are written.
std::vector<tw::MeshShape> meshes() {
  std::vector<tw::MeshShape> shapes = shapes_of(world().size());
  std::erase_if(shapes, [](const tw::MeshShape& shape) { return along(shape, "tensor") > 1 || along(shape, "layer") > 1; });
  return shapes;
}

class MeshRandom : public ::testing::TestWithParam<uint64_t> {};

/// TW_ALL_CELLS: forty modules on every mesh, as make accept runs it. Otherwise two, each on a mesh with stages and other samples.
TEST_P(MeshRandom, ModuleEqualsOneProcess) {
  const TableModel model = random_model(GetParam());
  std::vector<tw::MeshShape> shapes = meshes();
  if (!runs_all()) {
    std::erase_if(shapes, [](const tw::MeshShape& shape) { return shape.axes().size() != 2 || along(shape, "stage") == 1; });
    shapes = {shapes.at(GetParam() % shapes.size())};
  }
  Count count;
  for (size_t i = 0; i < shapes.size(); ++i) run_cell(model, shapes[i], Settings::drawn(tw::derived_seed(1000 + GetParam(), i)), count);
  count.print(model.name);
}
INSTANTIATE_TEST_SUITE_P(Of, MeshRandom, ::testing::Range<uint64_t>(0, runs_all() ? 40 : 2));

}  // namespace mesh_random_test
