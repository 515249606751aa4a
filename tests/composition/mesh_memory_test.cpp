// SPDX-License-Identifier: Apache-2.0
// ParallelModel::memory() predicts the memory that each process takes in an update, and keeps no memory afterwards.
#include "mpi_test.hpp"

#include <malloc.h>
#include <torch/torch.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <stdexcept>
#include <string>
#include <tw/comm/collectives.hpp>
#include <tw/layer_parallel/layer_parallel.hpp>
#include <tw/parallel_model.hpp>
#include <tw/tensor_parallel.hpp>

#include "mesh/cells.hpp"

namespace mesh_memory_test {

using tw::testing::world;
using tw::testing::mesh::axis_of;

constexpr int64_t width = 512;
constexpr int64_t hidden = 1024;
constexpr int64_t depth = 12;
constexpr int64_t rows = 128;  // of a place

/// @param tensor null: nothing is split
struct BranchImpl : torch::nn::Module {
  explicit BranchImpl(const tw::Communicator* tensor = nullptr) {
    if (tensor == nullptr) {
      torch::nn::Linear wide(width, hidden);
      torch::nn::Linear narrow(hidden, width);
      register_module("wide", wide);
      register_module("narrow", narrow);
      mlp = [wide, narrow](const at::Tensor& x) mutable { return narrow(torch::tanh(wide(x))); };
    } else {
      tw::tensor_parallel::ColumnParallelLinear wide(*tensor, width, hidden);
      tw::tensor_parallel::RowParallelLinear narrow(*tensor, hidden, width);
      register_module("wide", wide);
      register_module("narrow", narrow);
      mlp = [wide, narrow](const at::Tensor& x) mutable { return narrow(torch::tanh(wide(x))); };
    }
  }
  at::Tensor forward(const at::Tensor& x) { return x + mlp(x); }
  std::function<at::Tensor(const at::Tensor&)> mlp;
};
TORCH_MODULE(Branch);

using Make = std::function<tw::ParallelModel(const tw::Mesh& mesh, const at::Tensor& x)>;

tw::ParallelOptions options_for(const tw::Mesh& mesh) { return {.micro_batches = axis_of(mesh, "stage") != nullptr ? 4 : 1, .unit_bytes = 4 << 20}; }

tw::ParallelModel module(const tw::Mesh& mesh, const at::Tensor& x) {
  torch::nn::Sequential net;
  for (int64_t i = 0; i < depth; ++i) net->push_back(Branch());
  return tw::parallelize(mesh, *net, {x}, options_for(mesh));
}

tw::ParallelModel blocks(const tw::Mesh& mesh, const at::Tensor& x) {
  const std::vector<tw::pipeline::BlockFactory> branches(depth, tw::pipeline::block([&mesh] { return Branch(axis_of(mesh, "tensor")); }));
  return tw::parallelize(mesh, branches, {x}, options_for(mesh));
}

tw::ParallelModel layers(const tw::Mesh& mesh, const at::Tensor& x) {
  const auto part = [] { return tw::layer_parallel::block([] { return Branch(); }, depth / 2); };
  return tw::parallelize(mesh, {part(), part()}, {x}, tw::layer_parallel::LayerParallelOptions{.coarsening = 2}, options_for(mesh));
}

/// A line of a file of this process, in bytes.
int64_t line_of(const char* file, const std::string& name) {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(name + ':')) return std::stoll(line.substr(name.size() + 1)) * 1024;
  }
  return 0;
}
int64_t status(const std::string& name) { return line_of("/proc/self/status", name); }
/// This process's part of memory that processes share.
int64_t shared_bytes() { return line_of("/proc/self/smaps_rollup", "Pss_Shmem"); }

/// Memory that this process takes: anonymous, and its part of what processes share. Collective, because that part depends on who else uses it.
int64_t held_now() {
  malloc_trim(0);
  world().barrier();
  const int64_t held = status("RssAnon") + shared_bytes();
  world().barrier();
  return held;
}
/// How much more than at its end a process holds during `run`.
template <class Run>
int64_t most_above_end(const Run& run) {
  malloc_trim(0);
  std::ofstream("/proc/self/clear_refs") << "5";  // the peak counts from here
  run();
  return status("VmHWM") - status("VmRSS");
}

struct Mixture {
  std::vector<tw::MeshAxis> axes;
  Make make;
  bool is_in_sample = false;  ///< whether it is measured without TW_ALL_CELLS
};

double mib(int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

/// Prints the rank with the largest relative error. Collective.
void print_worst(const tw::Mesh& mesh, int64_t predicted, int64_t measured) {
  const at::Tensor mine = torch::tensor({predicted, measured});
  const at::Tensor all = torch::zeros({world().size(), 2}, torch::kLong);
  tw::allgather(world(), mine, all);
  if (world().rank() != 0) return;
  const at::Tensor errors = all.select(1, 1).div(all.select(1, 0)).sub(1);
  const auto worst = errors.abs().argmax().item<int64_t>();
  std::printf("memory of %s: predicted %.1f MiB, measured %.1f on rank %d: %+.1f %%\n", mesh.shape().describe().c_str(),
              mib(all[worst][0].item<int64_t>()), mib(all[worst][1].item<int64_t>()), static_cast<int>(worst), 100 * errors[worst].item<double>());
}

/// @param alone no other test has run in this process, and left memory that is used again
void expect_predicted(const Mixture& mixture, bool alone) {
  const tw::Mesh mesh(world(), mixture.axes);
  SCOPED_TRACE(mesh.shape().describe());
  const at::Tensor x = torch::randn({rows, width});
  const at::Tensor t = torch::randn({rows, width});
  const tw::Loss loss = tw::Loss(torch::nn::MSELoss());
  const int64_t before = held_now();
  tw::ParallelModel model = mixture.make(mesh, x);
  torch::optim::AdamW adam(model.parameters(), 1e-3);
  const auto update = [&] {
    adam.zero_grad();
    model.train_step(x, t, loss);
    model.clip_grad_norm(1.0);
    adam.step();
  };
  const tw::UpdateMemory memory = model.memory(x, t, loss, adam);
  update();  // makes the state of the optimizer
  const int64_t above_end = most_above_end(update);
  const int64_t measured = held_now() - before + above_end;
  const int64_t predicted = memory.peak().held.together();
  EXPECT_NEAR(mib(measured) / mib(predicted), 1, alone ? 0.05 : 0.1) << memory.peak().during << ": " << memory.peak().held.describe();
  if (alone) {
    EXPECT_NEAR(mib(above_end), mib(predicted - memory.kept.together()), 2) << "MiB of activations and temporaries, during " << memory.peak().during;
  }
  print_worst(mesh, predicted, measured);
}

/// Models are large enough that slots of communicators, graphs and plans are less than 5 % of their memory.
TEST(MeshMemory, IsPredicted) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the sanitizer keeps what was freed";
#endif
  mallopt(M_MMAP_THRESHOLD, 1 << 16);  // larger blocks return to the system when they are freed
  const std::vector<Mixture> mixtures{{{{"data", 4}}, module, true},
                                      {{{"shard", 4}}, module, true},
                                      {{{"stage", 4}}, module},
                                      {{{"tensor", 4}}, blocks},
                                      {{{"layer", 4}}, layers},
                                      {{{"data", 2}, {"shard", 2}}, module},
                                      {{{"data", 2}, {"stage", 2}}, module},
                                      {{{"shard", 2}, {"stage", 2}}, module},
                                      {{{"shard", 2}, {"stage", 2}}, blocks, true},
                                      {{{"data", 2}, {"tensor", 2}}, blocks},
                                      {{{"shard", 2}, {"tensor", 2}}, blocks},
                                      {{{"stage", 2}, {"tensor", 2}}, blocks},
                                      {{{"data", 2}, {"layer", 2}}, layers, true},
                                      {{{"shard", 2}, {"layer", 2}}, layers},
                                      {{{"stage", 2}, {"layer", 2}}, layers}};
  const bool all = std::getenv("TW_ALL_CELLS") != nullptr;
  for (const Mixture& each : mixtures) {
    if (all || each.is_in_sample) expect_predicted(each, all);
  }
  // The value that a process begins with. It does not adapt itself to later sizes any more, in all further tests of this process.
  mallopt(M_MMAP_THRESHOLD, 1 << 17);
}

/// Trains twice, once with calls of memory() in between.
TEST(MeshMemory, LeavesNothingBehind) {
  using namespace tw::testing::mesh;
  const std::vector<TableModel> models = table_models();
  for (const auto& [name, axes] :
       std::vector<std::pair<std::string, std::vector<tw::MeshAxis>>>{{"residual", {{"data", 2}, {"shard", 2}}},
                                                                      {"residual", {{"data", 2}, {"stage", 2}}},
                                                                      {"split blocks, dropout", {{"data", 2}, {"tensor", 2}}},
                                                                      {"layers, dropout", {{"data", 2}, {"layer", 2}}}}) {
    const TableModel& model = *std::ranges::find(models, name, &TableModel::name);
    const tw::Mesh mesh(world(), axes);
    const Settings settings{.seed = 5, .adam = true, .micro_batches = 2};
    std::vector<std::vector<tw::NamedTensor>> results;
    for (const bool asks : {false, true}) {
      Parallel parallel = model.parallel(mesh, settings.options());
      const auto optimizer = settings.optimizer(parallel.model.parameters());
      for (int update = 0; update < 3; ++update) {
        torch::manual_seed(static_cast<uint64_t>(update * 10 + parallel.model.place()));
        const Batch batch = model.batch(settings.rows(parallel.model.place(), update));
        if (asks) {
          const tw::UpdateMemory memory = parallel.model.memory(batch.inputs, batch.targets, model.loss(), *optimizer);
          EXPECT_GT(memory.pass.held[tw::MemoryUse::activations], 0);
        }
        optimizer->zero_grad();
        parallel.model.train_step(batch.inputs, batch.targets, model.loss());
        optimizer->step();
      }
      results.push_back(parallel.model.whole_on_root());
    }
    ASSERT_EQ(results[0].size(), results[1].size());
    for (size_t i = 0; i < results[0].size(); ++i) {
      EXPECT_TRUE(results[0][i].tensor.equal(results[1][i].tensor)) << name << " on " << mesh.shape().describe() << ": " << results[0][i].name;
    }
  }
}

// An embedding with max_norm changes rows of its table in each forward pass, also of a stage, which has operators in place of the embedding.
TEST(MeshMemory, LeavesRenormalisedRows) {
  const at::Tensor words = torch::arange(4, 8);
  const at::Tensor classes = words % 3;
  for (const auto& axes : std::vector<std::vector<tw::MeshAxis>>{{{"stage", -1}}, {{"data", -1}}}) {
    torch::manual_seed(2);
    const tw::Communicator ranks = axes[0].name == "stage" ? world().dup() : world().split(world().rank(), 0);
    const tw::Mesh mesh(ranks, axes);
    SCOPED_TRACE(mesh.shape().describe());
    torch::nn::Sequential net(torch::nn::Embedding(torch::nn::EmbeddingOptions(8, 6).max_norm(0.5)), torch::nn::Linear(6, 6), torch::nn::Tanh(),
                              torch::nn::Linear(6, 6), torch::nn::Tanh(), torch::nn::Linear(6, 3));
    tw::ParallelModel model = tw::parallelize(mesh, *net, {words - 4});  // changes other rows
    torch::optim::SGD sgd(model.parameters(), 0.1);
    const auto expect_unchanged = [&](const std::function<void()>& call) {
      std::vector<tw::NamedTensor> before = model.whole_on_root();
      for (tw::NamedTensor& each : before) each.tensor = each.tensor.clone();
      call();
      const std::vector<tw::NamedTensor> after = model.whole_on_root();
      for (size_t i = 0; i < before.size(); ++i) EXPECT_TRUE(after[i].tensor.equal(before[i].tensor)) << before[i].name;
    };
    const tw::Loss loss{torch::nn::CrossEntropyLoss()};
    expect_unchanged([&] { model.memory(words, classes, loss, sgd); });
    const tw::Loss broken([](const at::Tensor&, const at::Tensor&) -> at::Tensor { throw std::runtime_error("the loss is broken"); });
    expect_unchanged([&] { EXPECT_ANY_THROW(model.train_step(words, classes, broken)); });
  }
}

}  // namespace mesh_memory_test
