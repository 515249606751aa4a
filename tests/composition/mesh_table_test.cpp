// SPDX-License-Identifier: Apache-2.0
// The table: models x meshes x settings, each equal to one process. After three updates, losses, parameters, buffers and optimizer state agree to 32
// times the difference that another order of summation makes in one process: in float64 at least 1e-13 and at most 1e-12 (SGD) or 1e-9 (AdamW), in
// float32 accordingly. All holders of an element have the same bits.
#include "mpi_test.hpp"

#include <cstdlib>

#include "mesh/compare.hpp"

namespace mesh_table_test {

using namespace tw::testing::mesh;
using tw::testing::world;

class MeshTable : public ::testing::TestWithParam<size_t> {};

/// TW_ALL_CELLS: more settings, as make accept runs it; and all meshes of layers in parallel, whose passes take longest.
TEST_P(MeshTable, EqualsOneProcess) {
  const TableModel in_float64 = table_models().at(GetParam());
  const TableModel in_float32 = table_models({.dtype = torch::kFloat}).at(GetParam());
  const bool all = std::getenv("TW_ALL_CELLS") != nullptr;
  const uint64_t settings = all ? 4 : 1;
  const bool every_other = !all && world().size() > 3 && is_layered(in_float64.kind);
  Count count;
  uint64_t number = 0;
  for (const tw::MeshShape& shape : shapes_of(world().size())) {
    if (every_other && (number + GetParam()) % 2 == 0) {
      ++number;
      continue;
    }
    for (uint64_t i = 0; i < settings; ++i) {
      const Settings drawn = Settings::drawn(tw::derived_seed(GetParam(), ++number), true);
      run_cell(drawn.float32 ? in_float32 : in_float64, shape, drawn, count);
    }
  }
  count.print(in_float64.name);
}
INSTANTIATE_TEST_SUITE_P(Of, MeshTable, ::testing::Range<size_t>(0, table_models().size()), [](const auto& of) {
  std::string name = table_models().at(of.param).name;
  std::ranges::replace_if(name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
  return name;
});

}  // namespace mesh_table_test
