// SPDX-License-Identifier: Apache-2.0
// Forty modules of the generator on meshes of `data`, `shard` and `stage`: each equals one process, or is refused with the reason why it cannot be
// cut. Errors are bounded as in the table, by at most 1e-9.
#include "mpi_test.hpp"

#include <cstdlib>
#include <optional>

#include "mesh/compare.hpp"
#include "mesh/random_models.hpp"

namespace mesh_random_test {

using namespace tw::testing::mesh;
using tw::testing::world;

constexpr uint64_t modules = 40;

/// Meshes without the axes for which models are written.
std::vector<tw::MeshShape> meshes() {
  std::vector<tw::MeshShape> shapes = shapes_of(world().size());
  std::erase_if(shapes, [](const tw::MeshShape& shape) { return along(shape, "tensor") > 1 || along(shape, "layer") > 1; });
  return shapes;
}

/// TW_ALL_CELLS: every module on every mesh, as make accept runs it. Otherwise one module a mesh.
TEST(MeshRandom, ModulesEqualOneProcess) {
  const bool all = std::getenv("TW_ALL_CELLS") != nullptr;
  const std::vector<tw::MeshShape> shapes = meshes();
  Count count;
  for (uint64_t seed = 0; seed < modules; ++seed) {
    std::optional<TableModel> model;
    for (size_t i = 0; i < shapes.size(); ++i) {
      if (!all && seed != (7 * i + static_cast<uint64_t>(world().size())) % modules) continue;
      if (!model) model = random_model(seed);
      run_cell(*model, shapes[i], Settings::drawn(tw::derived_seed(1000 + seed, i)), count);
    }
  }
  count.print("random modules");
}

}  // namespace mesh_random_test
