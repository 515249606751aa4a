// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/zeros.h>
#include <torch/optim/optimizer.h>

#include <algorithm>
#include <optional>
#include <tw/base/contract.hpp>
#include <tw/base/numbers.hpp>
#include <tw/comm/collectives.hpp>
#include <tw/comm/full_tensors.hpp>
#include <tw/gradients/clipping.hpp>
#include <tw/mpi/library.hpp>
#include <tw/parallel_model/parallel_model.hpp>
#include <tw/planning/stage_ranks.hpp>

#include "buffer_rules.hpp"
#include "counted.hpp"
#include "gradient_sums.hpp"
#include "load_files.hpp"
#include "make_parallel_model.hpp"
#include "mesh_axes.hpp"
#include "step_agreement.hpp"

namespace tw {
namespace {

using Tensors = std::vector<at::Tensor>;

std::vector<std::string> with_shard() {
  std::vector<std::string> axes = model_axes;
  axes.emplace_back("shard");
  return axes;
}

/// By rank of the mesh: its place along the sample axes.
std::vector<int> places_of(const MeshShape& shape) {
  const std::vector<std::string> along = long_axes(shape, sample_axes);
  std::vector<int> places;
  for (int rank = 0; rank < shape.ranks(); ++rank) {
    const std::vector<int> coordinates = shape.coordinates_of(rank);
    int place = 0;
    for (const std::string& axis : along) {
      const size_t index = shape.index_of(axis);
      place = place * shape.axes()[index].size + coordinates[index];
    }
    places.push_back(place);
  }
  return places;
}

/// The axes of a mesh of which `left_out` is none.
std::vector<std::string> axes_without(const MeshShape& shape, const std::string& left_out) {
  std::vector<std::string> axes;
  for (const MeshAxis& axis : shape.axes()) {
    if (axis.name != left_out) axes.push_back(axis.name);
  }
  return axes;
}

/// The ranks that meet in every update.
std::optional<Mesh> mesh_of_update(const Mesh& mesh, ReplicaMeeting replicas) {
  if (replicas == ReplicaMeeting::every_step || size_along(mesh.shape(), "data") == 1) return std::nullopt;
  const std::vector<std::string> axes = axes_without(mesh.shape(), "data");
  return axes.empty() ? Mesh(mesh.comm().split(mesh.comm().rank(), 0), {{"data", 1}}) : mesh.sub(axes);
}

std::vector<OptimizedTensor> trained_of(const TrainableModel& model) {
  std::vector<OptimizedTensor> tensors = model.optimized_tensors();
  std::erase_if(tensors, [](const OptimizedTensor& each) { return !each.tensor.requires_grad(); });
  return tensors;
}

std::vector<std::string> names_of(const std::vector<OptimizedTensor>& tensors) {
  std::vector<std::string> names;
  for (const OptimizedTensor& each : tensors) names.push_back(each.slices.at(0).name);
  return names;
}

/// Rows of those tensors that this rank has.
Tensors narrow_given(const Tensors& tensors, pipeline::Rows rows) {
  Tensors parts;
  for (const at::Tensor& each : tensors) parts.push_back(each.defined() ? each.narrow(0, rows.begin, rows.count()) : each);
  return parts;
}

/// Without the counters of pipelines and layers in parallel: this class counts updates for all of them.
std::vector<NamedShard> buffers_of(std::vector<NamedShard> shards) {
  std::erase_if(shards, [](const NamedShard& shard) { return shard.kind != ShardKind::buffer; });
  return shards;
}

}  // namespace

class ParallelModel::Impl {
 public:
  Impl(const Mesh& of, std::shared_ptr<const Mesh> own, std::unique_ptr<Program> program, const ParallelOptions& options)
      : mesh_(std::move(own)),
        replica_(mesh_of_update(mesh(), options.replicas)),
        comm_(meeting().comm().dup()),
        micro_batches_(options.micro_batches),
        program_(std::move(program)),
        places_(mesh(), sample_axes),
        samples_(meeting(), sample_axes),
        model_ranks_(mesh(), model_axes),
        parts_(mesh(), with_shard()),
        place_of_(places_of(meeting().shape())),
        others_(buffers_of(model().shards())),
        names_(names_of(trained_of(model()))),
        counted_(counted_here(model_ranks_.comm(), trained_of(model()))),
        buffers_(model().tensors().buffers),
        sums_(size_along(of.shape(), "shard") > 1 ? sharded_parameters(mesh(), *program_, options)
                                                  : whole_parameters(mesh(), model_ranks_.comm(), model(), options)),
        optimized_(sums_->optimized()),
        updates_(at::zeros({}, at::kLong)),
        explanation_(program_->explain()) {
    if (size_along(of.shape(), "tensor") > 1) split_layers_.emplace(mpi::share(of["tensor"]));
    others_.push_back(whole("parallel_model/updates", updates_, ShardKind::counter));
    for (size_t i = 0; i < optimized_.size(); ++i) named_.push_back({names_[i], optimized_[i].tensor});
  }

  /// Runs `call`. If it throws on any rank, all ranks throw, and no other call can follow.
  template <class Call>
  auto together(const Call& call) {
    TW_EXPECTS(failure_.empty(),
               "a call of this model has failed, so no other can follow: make a new one. Its parameters are as they were. What failed: ", failure_);
    try {
      return call();
    } catch (const std::exception& error) {
      failure_ = error.what();
      mesh_->comm().revoke(failure_);  // and all that are derived from it
      if (split_layers_) split_layers_->revoke(failure_);
      throw;
    }
  }

  double train_step(const Tensors& inputs, const Tensors& targets, const Loss& loss) {
    const BatchFacts facts = together([&] { return facts_of(inputs, targets, loss, model_ranks_.size() > 1); });
    const Update update = agree_on_update(comm_, facts, place_of_);  // throws on all ranks alike, before anything has changed
    return together([&] { return make_step(inputs, targets, loss, update); });
  }

  double make_step(const Tensors& inputs, const Tensors& targets, const Loss& loss, const Update& update) {
    const auto place = static_cast<size_t>(samples_.rank());
    if (samples_.size() > 1) buffers_.remember();
    const double mine = program_->accumulate({.inputs = inputs,
                                              .targets = targets,
                                              .loss = loss,
                                              .rows = update.rows[place],
                                              .weight = update.weight,
                                              .update = updates_.item<int64_t>(),
                                              .place = places_.rank()},
                                             *sums_);
    updates_.add_(1);
    if (samples_.size() == 1) return mine;
    std::vector<double> changed = buffers_.changed();
    changed.push_back(mine);
    allreduce(*samples_.comm(), at::from_blob(changed.data(), {static_cast<int64_t>(changed.size())}, at::kDouble), ReduceOp::sum);
    const double total = changed.back();
    changed.pop_back();
    if (std::ranges::any_of(changed, [](double each) { return each > 0; })) {
      buffers_.apply(*samples_.comm(), changed, static_cast<double>(update.rows[place]) / static_cast<double>(update.all_rows));
    }
    return total;
  }

  std::vector<double> evaluate(const Tensors& inputs, const Tensors& targets, const std::vector<OutputSum>& sums, int64_t rows) {
    const BatchFacts facts = together([&] { return facts_of(inputs, targets, Loss::over_rows(), model_ranks_.size() > 1); });
    const Update batch = agree_on_update(comm_, facts, place_of_);
    return together([&] { return make_evaluation(inputs, targets, sums, rows, batch); });
  }

  std::vector<double> make_evaluation(const Tensors& inputs, const Tensors& targets, const std::vector<OutputSum>& sums, int64_t rows,
                                      const Update& batch) {
    const int64_t here = batch.rows[static_cast<size_t>(samples_.rank())];
    const int64_t most = *std::ranges::max_element(batch.rows);
    const int64_t chunk = rows > 0 ? rows : divide_up(most, micro_batches_);
    std::vector<double> totals(sums.size(), 0);
    for (int64_t begin = 0; begin < (sums_->gathers_in_passes() ? most : here); begin += chunk) {
      const pipeline::Rows part{std::min(begin, here), std::min(begin + chunk, here)};
      const bool counts = part.count() > 0;
      const Tensors outputs = program_->evaluate(counts ? narrow_given(inputs, part) : program_->example());
      if (!counts || outputs.empty()) continue;
      for (size_t i = 0; i < sums.size(); ++i) totals[i] += sums[i](outputs, narrow_given(targets, part));
    }
    allreduce(comm_, at::from_blob(totals.data(), {static_cast<int64_t>(totals.size())}, at::kDouble), ReduceOp::sum);
    return totals;
  }

  double clip(double max_norm) {
    GradientShare share;
    TW_ASSERT(counted_.size() == optimized_.size() || optimized_.empty());
    for (size_t i = 0; i < optimized_.size(); ++i) {
      const at::Tensor& gradient = optimized_[i].tensor.grad();
      if (gradient.defined()) (counted_[i] != 0 ? share.counted : share.others).push_back(gradient);
    }
    if (parts_.comm() != nullptr) share.sum_over.push_back(parts_.comm());
    return clip_gradient_norm(share, max_norm);
  }

  std::vector<NamedShard> shards() const {
    std::vector<NamedShard> all = sums_->parameters();
    all.insert(all.end(), others_.begin(), others_.end());
    return all;
  }

  TrainableModel& model() const { return program_->model(); }
  /// The ranks that meet in every update.
  const Mesh& meeting() const { return replica_ ? *replica_ : mesh(); }
  const Mesh& mesh() const { return *mesh_; }

  std::shared_ptr<const Mesh> mesh_;          // this model's own
  std::optional<Communicator> split_layers_;  // of the user's mesh
  std::optional<Mesh> replica_;               // if replicas train apart
  Communicator comm_;                         // of meeting()
  int64_t micro_batches_;
  std::unique_ptr<Program> program_;
  RanksAlong places_;   // all ranks with other samples
  RanksAlong samples_;  // those among them that meet
  RanksAlong model_ranks_;
  RanksAlong parts_;                // ranks with other elements
  std::vector<int> place_of_;       // by rank of meeting(), among samples_
  std::vector<NamedShard> others_;  // buffers, and the number of updates
  std::vector<std::string> names_;  // by optimized tensor
  std::vector<uint8_t> counted_;    // by optimized tensor
  BufferRules buffers_;
  std::unique_ptr<GradientSums> sums_;
  std::vector<OptimizedTensor> optimized_;
  std::vector<NamedTensor> named_;  // the same tensors
  at::Tensor updates_;              // a tensor, because checkpoints contain it
  std::string explanation_;
  std::string failure_;  // message of the call that failed; empty: none
};

ParallelModel make_parallel_model(const Mesh& of, std::shared_ptr<const Mesh> own, std::unique_ptr<Program> program, const ParallelOptions& options) {
  return ParallelModel(std::make_unique<ParallelModel::Impl>(of, std::move(own), std::move(program), options));
}

ParallelModel::ParallelModel(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ParallelModel::ParallelModel(ParallelModel&&) noexcept = default;
ParallelModel& ParallelModel::operator=(ParallelModel&&) noexcept = default;
ParallelModel::~ParallelModel() = default;

std::vector<at::Tensor> ParallelModel::parameters() const {
  std::vector<at::Tensor> tensors;
  for (const OptimizedTensor& each : impl_->optimized_) tensors.push_back(each.tensor);
  return tensors;
}
const std::vector<NamedTensor>& ParallelModel::named_parameters() const noexcept { return impl_->named_; }
std::vector<OptimizedTensor> ParallelModel::optimized() const { return impl_->optimized_; }

double ParallelModel::train_step(const at::Tensor& inputs, const at::Tensor& targets, const Loss& loss) {
  return train_step(Tensors{inputs}, Tensors{targets}, loss);
}
double ParallelModel::train_step(const Tensors& inputs, const Tensors& targets, const Loss& loss) { return impl_->train_step(inputs, targets, loss); }
double ParallelModel::clip_grad_norm(double max_norm) {
  TW_EXPECTS(max_norm > 0, "max_norm must be positive, got ", max_norm);
  return impl_->together([&] { return impl_->clip(max_norm); });
}

at::Tensor ParallelModel::forward(const at::Tensor& inputs) {
  const Tensors outputs = forward(Tensors{inputs});
  TW_EXPECTS(outputs.size() == 1, "the model has ", outputs.size(), " outputs: forward() of a list of tensors returns them");
  return outputs.front();
}
std::vector<at::Tensor> ParallelModel::forward(const Tensors& inputs) {
  return impl_->together([&] { return impl_->program_->forward(inputs); });
}
std::vector<double> ParallelModel::evaluate(const Tensors& inputs, const Tensors& targets, const std::vector<OutputSum>& sums, int64_t rows) {
  TW_EXPECTS(rows >= 0, "rows must be at least 0, got ", rows);
  return impl_->evaluate(inputs, targets, sums, rows);
}
void ParallelModel::train(bool on) { impl_->model().set_training(on); }

int ParallelModel::places() const noexcept { return impl_->places_.size(); }
int ParallelModel::place() const noexcept { return impl_->places_.rank(); }
DistributedSampler ParallelModel::sampler(size_t samples, const SamplerOptions& options) const { return {samples, places(), place(), options}; }

std::vector<NamedShard> ParallelModel::shards() const { return impl_->shards(); }

void ParallelModel::save(CheckpointStore& store, int64_t step, torch::optim::Optimizer& optimizer, const std::string& metadata) const {
  std::vector<NamedShard> all = shards();
  const std::vector<NamedShard> state = OptimizerState(optimizer, impl_->optimized_).shards();
  all.insert(all.end(), state.begin(), state.end());
  store.save(step, all, metadata);
}

std::string ParallelModel::load(const CheckpointStore& store, int64_t step, torch::optim::Optimizer& optimizer) {
  const at::NoGradGuard no_grad;
  OptimizerState state(optimizer, impl_->optimized_);
  std::vector<std::string> names;
  for (const StoredTensor& tensor : store.index(step).tensors) names.push_back(tensor.spec.name);
  state.prepare(names);
  std::vector<NamedShard> all = shards();
  const std::vector<NamedShard> of_optimizer = state.shards();
  all.insert(all.end(), of_optimizer.begin(), of_optimizer.end());
  std::string metadata = store.load(step, all);
  impl_->sums_->parameters_written();
  state.apply(all);
  return metadata;
}

void ParallelModel::load(const std::vector<std::filesystem::path>& files, const std::function<std::string(const std::string& name)>& name_in_files) {
  std::vector<NamedShard> tensors = shards();
  std::erase_if(tensors, [](const NamedShard& each) { return each.kind == ShardKind::counter; });
  load_files(impl_->mesh().comm(), tensors, files, name_in_files);
  impl_->sums_->parameters_written();
}

std::vector<NamedTensor> ParallelModel::whole_on_root() const {
  std::vector<NamedShard> tensors = shards();
  std::erase_if(tensors, [](const NamedShard& each) { return each.kind == ShardKind::counter; });
  std::vector<NamedTensor> all;
  const Communicator& comm = impl_->mesh().comm();
  for_each_full_tensor(comm, tensors, [&](const std::string& name, const at::Tensor& values) {
    if (comm.rank() == 0) all.push_back({name, values});
  });
  return all;
}

const std::string& ParallelModel::explain() const { return impl_->explanation_; }

}  // namespace tw
