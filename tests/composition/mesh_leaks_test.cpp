// SPDX-License-Identifier: Apache-2.0
// Updates leak nothing: after a warm-up, a rank holds the same bytes of tensors, operations in flight and file descriptors as long as it trains. It
// makes no further communicators, and its resident memory stays.
#include "mpi_test.hpp"

#include <malloc.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <tw/mpi/engine.hpp>
#include <tw/tensor/held_memory.hpp>

#include "../../modules/mpi/src/runtime.hpp"
#include "mesh/cells.hpp"

namespace mesh_leaks_test {

using namespace tw::testing::mesh;
using tw::testing::world;

struct Holdings {
  int64_t tensor_bytes = 0;
  int64_t operations = 0;
  uint64_t communicators = 0;  // made since the start, and this question is one
  int64_t descriptors = 0;
  int64_t resident_kib = 0;
};

Holdings holdings(const tw::HeldMemory& tensors) {
  // Operations whose handles were dropped end when their peers have caught up.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (tw::operations_in_flight(world()) > 0 && std::chrono::steady_clock::now() < deadline) tw::progress(world());
  ::malloc_trim(0);
  Holdings now{
      .tensor_bytes = tensors.now(), .operations = tw::operations_in_flight(world()), .communicators = world().state()->runtime->next_communicator()};
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++now.descriptors;
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word == "VmRSS:") status >> now.resident_kib;
  }
  return now;
}

/// Trains with clipping, and evaluates after every tenth update.
void expect_no_leak(const TableModel& model, const tw::MeshShape& shape, int64_t updates) {
  constexpr int64_t warm_up = 10;
#if defined(__SANITIZE_ADDRESS__)
  constexpr int64_t allowed_kib = 1 << 20;  // freed memory is kept for a while: its size means nothing here
#else
  constexpr int64_t allowed_kib = 800;  // the heap grows in steps; 1 KiB an update would be 1 MiB
#endif
  SCOPED_TRACE(model.name + " on " + shape.describe());
  const tw::Mesh mesh(world(), shape.axes());
  const Settings settings{.seed = 5, .adam = true, .micro_batches = 2};
  Parallel parallel = model.parallel(mesh, settings.options());
  tw::ParallelModel& trained = parallel.model;
  const auto optimizer = settings.optimizer(trained.parameters());
  torch::manual_seed(static_cast<uint64_t>(trained.place()));
  const Batch batch = model.batch(settings.rows(trained.place(), 0));
  const tw::OutputSum rows = [](const Tensors& outputs, const Tensors& /*targets*/) { return static_cast<double>(outputs.front().size(0)); };
  const tw::HeldMemory tensors;
  Holdings before;
  for (int64_t update = 0; update < updates; ++update) {
    if (update == warm_up) before = holdings(tensors);
    optimizer->zero_grad();
    trained.train_step(batch.inputs, batch.targets, model.loss());
    trained.clip_grad_norm(0.1);
    optimizer->step();
    optimizer->zero_grad();
    if (update % 10 != 9) continue;
    trained.eval();
    EXPECT_EQ(trained.evaluate(batch.inputs, batch.targets, {rows}, 2).at(0), trained.places() * settings.rows(0, 0));
    trained.train();
  }
  const Holdings after = holdings(tensors);
  EXPECT_EQ(after.tensor_bytes, before.tensor_bytes);
  EXPECT_EQ(after.operations, 0);
  EXPECT_EQ(after.communicators, before.communicators + 1);
  EXPECT_EQ(after.descriptors, before.descriptors);
  EXPECT_LE(after.resident_kib - before.resident_kib, allowed_kib);
  if (world().rank() == 0) std::printf("%s: %lld updates on %s\n", model.name.c_str(), static_cast<long long>(updates), shape.describe().c_str());
  world().barrier();
}

/// TW_ALL_CELLS: 1,000 updates each, as make accept runs it.
TEST(MeshLeaks, UpdatesLeakNothing) {
  const bool all = std::getenv("TW_ALL_CELLS") != nullptr;
  std::vector<std::pair<std::string, std::vector<tw::MeshAxis>>> cells{
      {"gpt", {{"data", 2}, {"stage", 2}}}, {"blocks", {{"shard", 2}, {"stage", 2}}}, {"split blocks", {{"data", 2}, {"tensor", 2}}}};
  if (all) {
    cells.push_back({"gpt", {{"data", 4}}});
    cells.push_back({"gpt", {{"shard", 4}}});
    cells.push_back({"layers", {{"data", 2}, {"layer", 2}}});
    cells.push_back({"split module", {{"stage", 2}, {"tensor", 2}}});
  }
  const std::vector<TableModel> models = table_models();
  for (const auto& [name, axes] : cells) {
    const auto model = std::ranges::find(models, name, &TableModel::name);
    EXPECT_NO_THROW(expect_no_leak(*model, tw::MeshShape(4, axes), all ? 1000 : 20));
  }
}

}  // namespace mesh_leaks_test
