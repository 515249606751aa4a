// SPDX-License-Identifier: Apache-2.0
#include "rehearsal.hpp"

#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/util/Exception.h>
#include <c10/util/ScopeExit.h>
#include <torch/optim/optimizer.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <optional>
#include <ostream>
#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>
#include <tw/base/number_text.hpp>
#include <tw/base/numbers.hpp>
#include <tw/comm/agreement.hpp>
#include <tw/comm/collectives.hpp>
#include <tw/comm/ranks_along.hpp>
#include <tw/data/loader.hpp>
#include <tw/data/sharded_dataset.hpp>
#include <tw/mpi/revoke_on_exception.hpp>
#include <tw/state/optimizer_memory.hpp>
#include <tw/tensor/memory_account.hpp>
#include <tw/tensor/tensor_snapshot.hpp>
#include <tw/train/mixed_precision.hpp>
#include <tw/train/strategy_memory.hpp>

#include "half_arithmetic.hpp"
#include "shapes_in_errors.hpp"
#include "train_rows.hpp"

namespace tw::tool {
namespace {

// MemAvailable of /proc/meminfo, in bytes; 0 if it is unknown.
int64_t available_memory() {
  std::ifstream in("/proc/meminfo");
  for (std::string word; in >> word;) {
    int64_t kib = 0;
    if (word == "MemAvailable:" && in >> kib) return kib * 1024;
  }
  return 0;
}

// Evaluates one batch. In a run, the first evaluation comes after a whole epoch: too late to learn that the model does not accept the evaluation
// data.
void try_evaluation(const TrainConfig& config, const TrainSetup& setup, int ranks, const char* name, const Dataset* data) {
  const torch::NoGradGuard no_grad;
  if (data == nullptr || data->size() == 0) return;
  const int64_t rows = std::min(config.run.rows_of_an_evaluation(global_batch_of(config, ranks), ranks), divide_up(data->size(), ranks));
  const Batch batch = first_samples(*data, rows, setup.model.device());
  setup.model.set_training(false);
  const auto as_found = c10::make_scope_exit([&] { setup.model.set_training(true); });
  try {
    const at::Tensor outputs = setup.model.evaluate(batch.inputs);
    if (outputs.defined()) (void)setup.objective.loss(outputs, batch.targets.to(outputs.device()));
  } catch (const c10::Error& error) {
    throw Error(concat("the model does not take the ", name, " set, whose inputs are ", batch.inputs.sizes().slice(1), " and targets ",
                       batch.targets.sizes().slice(1), ": ", error.what_without_backtrace()));
  }
}

// Samples of a rank in an epoch's last pass if that is smaller than the others; otherwise 0.
int64_t rows_of_the_rest(const TrainConfig& config, int64_t samples, int ranks) {
  if (config.run.drop_last) return 0;
  const int64_t rest = samples % config.run.samples_of_a_pass(global_batch_of(config, ranks), ranks);
  if (config.run.uneven == Uneven::pad) return divide_up(rest, ranks);
  if (config.run.uneven == Uneven::drop) return rest / ranks;
  return rest > 0 ? std::max<int64_t>(1, rest / ranks) : 0;
}

// Runs a pass with the samples of an epoch's last update, which also comes late. It may have a single sample, which batch norms refuse.
void try_the_rest(const TrainConfig& config, const TrainSetup& setup, int ranks) {
  const int64_t rows = rows_of_the_rest(config, setup.data.train_set->size(), ranks);
  if (rows == 0) return;
  const Batch batch = first_samples(*setup.data.train_set, rows, setup.model.device());
  const auto refused = [&](const std::string& what) {
    return Error(concat("the last update of an epoch has ", rows, rows == 1 ? " sample" : " samples", " on a rank, which the model does not take: ",
                        what, "\nLeave it out (drop_last = true), or choose a batch size that leaves no such remainder"));
  };
  try {
    setup.model.trained->pass({.inputs = batch.inputs, .targets = batch.targets, .loss = setup.objective.loss});
  } catch (const c10::Error& error) {
    throw refused(error.what_without_backtrace());
  } catch (const Error&) {
    throw;
  } catch (const std::runtime_error& error) {  // from the TorchScript interpreter
    throw refused(error.what());
  }
}

/// Results of the first pass, on this rank.
struct Rehearsal {
  std::vector<int64_t> inputs;  // shapes of a sample
  std::vector<int64_t> targets;
  std::optional<std::vector<int64_t>> outputs;
  double loss = 0;
  int64_t batch_bytes = 0;
  MemoryPeak pass;
  MemoryPeak evaluation;
};

Rehearsal rehearse_pass(const TrainConfig& config, const TrainSetup& setup, int ranks, const train::StrategyMemory& memory) {
  Rehearsal rehearsal;
  for (const NamedTensor& each : setup.model.parameters) {
    if (each.tensor.requires_grad() && memory.gradients_are_kept) each.tensor.mutable_grad() = at::zeros_like(each.tensor);
  }
  const auto held_in = [&](const char* phase, const auto& call) {
    MemoryAccount account(setup.model.device().type());
    account.begin();
    account.phase(phase);
    call(account);
    KnownMemory known;
    for (const NamedTensor& each : setup.model.parameters) {
      known.add(MemoryUse::parameters, each.tensor);
      known.add(MemoryUse::gradients, each.tensor.grad());
    }
    for (const NamedTensor& each : setup.model.buffers) known.add(MemoryUse::buffers, each.tensor);
    account.end(0, known);
    return account.peak();
  };
  rehearsal.pass = held_in("forward", [&](MemoryAccount& account) {
    const Batch batch = first_samples(*setup.data.train_set, rows_of_a_pass(config, ranks), setup.model.device());
    rehearsal.batch_bytes = static_cast<int64_t>(batch.inputs.nbytes() + batch.targets.nbytes());
    rehearsal.inputs = batch.inputs.sizes().slice(1).vec();
    rehearsal.targets = batch.targets.sizes().slice(1).vec();
    const TensorSnapshot buffers(setup.model.buffers);  // a training step keeps such a copy
    at::Tensor outputs;
    const auto on_loss = [&](const at::Tensor& given, const at::Tensor& loss) {
      account.phase("backward");
      outputs = given;
      rehearsal.loss = loss.item<double>();
      if (!std::isfinite(rehearsal.loss)) throw Error(concat("the loss of the first batch is not finite: ", rehearsal.loss));
    };
    with_shapes_in_errors(config, *setup.data.train_set, [&] {
      setup.model.trained->pass({.inputs = batch.inputs, .targets = batch.targets, .loss = setup.objective.loss, .on_loss = on_loss});
    });
    if (outputs.defined()) rehearsal.outputs = outputs.sizes().slice(1).vec();
  });
  rehearsal.evaluation = held_in("evaluation", [&](MemoryAccount&) {
    try_evaluation(config, setup, ranks, "validation", setup.data.validation_set.get());
    try_evaluation(config, setup, ranks, "test", setup.data.test_set.get());
  });
  try_the_rest(config, setup, ranks);
  if (!rehearsal.outputs) {
    const Batch batch = first_samples(*setup.data.train_set, rows_of_a_pass(config, ranks), setup.model.device());
    rehearsal.outputs = setup.model.forward(batch.inputs).sizes().slice(1).vec();
  }
  return rehearsal;
}

train::ModelMemory memory_of_model(const TrainSetup& setup) {
  train::ModelMemory memory;
  for (const NamedTensor& each : setup.model.parameters) {
    if (each.tensor.requires_grad()) {
      memory.trained.push_back(each.spec());
    } else {
      memory.frozen_bytes += static_cast<int64_t>(each.tensor.nbytes());
    }
  }
  for (const NamedTensor& each : setup.model.buffers) memory.buffer_bytes += static_cast<int64_t>(each.tensor.nbytes());
  const OptimizerTensors of_optimizer = optimizer_tensors(setup.optimizer->param_groups().front().options());
  memory.state_tensors = of_optimizer.state;
  memory.temporary_tensors = of_optimizer.temporary;
  return memory;
}

// The phase in which a rank will hold the most memory.
MemoryPeak peak_of_rank(const TrainConfig& config, const train::StrategyMemory& memory, const Rehearsal& rehearsal, bool validates) {
  const train::CheckpointPolicy& files = config.run.checkpoint;
  const bool has_files = files.every_epochs > 0 || files.every_steps > 0;
  const bool keeps_best = has_files && validates;
  const bool trains_after_one = files.every_steps > 0 || (files.every_epochs > 0 && files.every_epochs < config.run.epochs);
  const bool trains_after_best = config.run.evaluate_every < config.run.epochs;
  const int64_t ahead = config.run.loader_workers > 0 ? LoaderOptions().prefetch * rehearsal.batch_bytes : 0;
  MemoryPeak worst;
  const auto consider = [&](const std::string& during, int64_t gradients, int64_t activations, bool has_file, bool has_best) {
    MemoryPeak peak{memory.kept, during, 0};
    peak.held[MemoryUse::gradients] = gradients;
    peak.held[MemoryUse::activations] = activations + ahead;
    if (has_file && has_files) peak.held[MemoryUse::buffers] += memory.checkpoint;
    if (has_best && keeps_best) peak.held[MemoryUse::buffers] += memory.best_model;
    if (peak.held.together() > worst.held.together()) worst = peak;
  };
  const int64_t all = memory.kept[MemoryUse::gradients];
  const MemoryByUse& pass = rehearsal.pass.held;
  consider(rehearsal.pass.during, memory.gradients_are_kept ? all : pass[MemoryUse::gradients], pass[MemoryUse::activations] + memory.backward,
           trains_after_one, trains_after_best);
  consider("update", all, memory.update + rehearsal.batch_bytes, trains_after_one, trains_after_best);
  consider("evaluation", all, rehearsal.evaluation.held[MemoryUse::activations] + rehearsal.batch_bytes, trains_after_one, trains_after_best);
  consider("checkpoint", all, (keeps_best ? memory.exported : 0) + rehearsal.batch_bytes, true, true);
  return worst;
}

std::string mib(int64_t bytes) { return fixed_text(static_cast<double>(bytes) / (1 << 20), 1) + " MiB"; }

}  // namespace

void rehearse(const TrainConfig& config, TrainSetup setup, const Mesh& mesh, std::ostream& out) {
  setup.model = train::under_autocast(std::move(setup.model), config.run.precision.compute);
  setup.objective = train::under_autocast(std::move(setup.objective), config.run.precision.compute);
  const int ranks = sample_ranks(mesh);
  for (const auto& dataset : setup.data.opened) {
    if (const auto* shards = dynamic_cast<const ShardedDataset*>(dataset.get())) shards->check_all();
  }
  const std::vector<std::string> axes = setup.model.trained->axes();  // the tool's models have at most one
  const Communicator* const parts = axes.empty() ? nullptr : &mesh[axes.front()];
  const train::MeshSizes sizes{
      .data = mesh["data"].size(), .shard = size_along(mesh.shape(), "shard"), .parts = parts != nullptr ? parts->size() : 1};
  expect_none(contradictions(config.run.shard, config.run.replicas, sizes));
  const train::StrategyMemory memory = strategy_memory(config.run.shard, config.run.replicas, sizes, memory_of_model(setup));
  const Rehearsal rehearsal =
      revoke_on_exception(parts != nullptr ? *parts : mesh.comm(), [&] { return rehearse_pass(config, setup, ranks, memory); });
  const MemoryPeak mine = peak_of_rank(config, memory, rehearsal, setup.data.validation_set != nullptr);
  int64_t elements = setup.model.trained_elements();
  std::vector<MemoryPeak> peaks{mine};
  if (parts != nullptr) {
    on_all_ranks(*parts, "dividing the model among ranks", [&] {
      if (elements == 0) throw Error(concat("this rank has no layers to train: mesh.", axes.front(), " is too large for this model"));
    });
    const at::Tensor sum = at::zeros({1}, at::kLong).fill_(elements);
    allreduce(*parts, sum, ReduceOp::sum);
    elements = sum.item<int64_t>();
    peaks = train::peaks_of_ranks(*parts, mine);
  }
  int64_t of_all = 0;
  for (const MemoryPeak& peak : peaks) of_all += peak.held.together() * ranks;
  const int64_t available = available_memory();
  const int64_t batch_size = divide_up(global_batch_of(config, ranks), ranks);
  out << "rehearsal: configuration, data and model fit together; nothing was written\n"
      << "  data           " << setup.data.train_set->size() << " " << setup.unit << " to train, "
      << (setup.data.validation_set ? setup.data.validation_set->size() : 0) << " to validate, " << setup.data.test_set->size() << " to test; inputs "
      << at::IntArrayRef(rehearsal.inputs) << ", targets " << at::IntArrayRef(rehearsal.targets) << '\n'
      << "  model          " << elements << " parameters; outputs " << at::IntArrayRef(*rehearsal.outputs) << ", first loss " << rehearsal.loss
      << '\n'
      << "  a step         " << batch_size << " " << setup.unit << " on each of " << ranks
      << (parts != nullptr && parts->size() > 1 ? " groups of ranks\n" : " ranks\n") << "  memory         " << train::memory_text(peaks)
      << "; on all ranks " << mib(of_all) << ", of " << mib(available) << " available on this node\n";
  if (setup.model.device().is_cpu()) {
    const std::string slow = why_slow(config.run.precision.compute);
    if (!slow.empty()) out << "  precision      " << slow << '\n';
  }
  if (available > 0 && of_all > available)
    throw Error("all ranks together need more memory than this node has available, if they all run here: use more nodes or smaller batches");
}

}  // namespace tw::tool
