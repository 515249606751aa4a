// SPDX-License-Identifier: Apache-2.0
#include <tw/base/contract.hpp>
#include <tw/comm/agreement.hpp>
#include <tw/comm/collectives.hpp>
#include <tw/comm/shared_tensor.hpp>
#include <tw/gradients/clipping.hpp>
#include <tw/gradients/sharded_optimizer.hpp>
#include <tw/mpi/topology.hpp>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/where.h>
#include <c10/util/Type.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/lbfgs.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <algorithm>
#include <iomanip>
#include <limits>
#include <map>
#include <typeinfo>

namespace tw {
namespace {

using torch::optim::Optimizer;
using torch::optim::OptimizerParamGroup;

std::string kind_of(const Optimizer& optimizer) { return c10::demangle(typeid(optimizer).name()); }

/// Makes an elementwise optimizer.
template <class Kind, class Options>
std::unique_ptr<Optimizer> make(const std::vector<OptimizerParamGroup>& groups, const Optimizer& prototype) {
  return std::make_unique<Kind>(groups, static_cast<const Options&>(prototype.defaults()));
}

using Make = std::unique_ptr<Optimizer> (*)(const std::vector<OptimizerParamGroup>&, const Optimizer&);

// Null for other kinds.
Make maker_of(const Optimizer& optimizer) {
  using namespace torch::optim;
  const std::type_info& type = typeid(optimizer);
  if (type == typeid(SGD)) return make<SGD, SGDOptions>;
  if (type == typeid(Adam)) return make<Adam, AdamOptions>;
  if (type == typeid(AdamW)) return make<AdamW, AdamWOptions>;
  if (type == typeid(RMSprop)) return make<RMSprop, RMSpropOptions>;
  if (type == typeid(Adagrad)) return make<Adagrad, AdagradOptions>;
  return nullptr;
}

// Adagrad's constructor makes its state.
bool has_stepped(const Optimizer& optimizer) {
  return std::ranges::any_of(optimizer.state(), [](const auto& each) {
    const auto* adagrad = dynamic_cast<const torch::optim::AdagradParamState*>(each.second.get());
    return adagrad == nullptr || adagrad->step() > 0;
  });
}

void expect_shardable(const Optimizer& optimizer, Sharding sharding) {
  TW_EXPECTS(typeid(optimizer) != typeid(torch::optim::LBFGS), "LBFGS needs all parameters at once: it cannot be sharded");
  TW_EXPECTS(sharding == Sharding::tensors || maker_of(optimizer) != nullptr, kind_of(optimizer),
             " is not known to update each element independently: use Sharding::tensors");
}

void expect_agreement(const Communicator& comm, const std::vector<NamedTensor>& parameters, const ShardedOptimizerOptions& options) {
  std::vector<std::string> lines = value_lines(options);
  for (std::string& line : lines_of(specs_of(parameters))) lines.push_back(std::move(line));
  expect_same_on_all_ranks(comm, "options and parameters of the sharded optimizer", lines);
}

bool is_half(const at::Tensor& tensor) { return tensor.scalar_type() == at::kHalf || tensor.scalar_type() == at::kBFloat16; }

}  // namespace

OptimizerFactory optimizer_like(const Optimizer& prototype, const std::vector<NamedTensor>& parameters) {
  TW_EXPECTS(maker_of(prototype) != nullptr, "the optimizer ", kind_of(prototype), " is not supported: use SGD, Adam, AdamW, RMSprop or Adagrad");
  TW_EXPECTS(!has_stepped(prototype), "the optimizer ", kind_of(prototype),
             " has state of earlier steps, which would be lost: the copy that updates slices ",
             "starts without state. Make a new optimizer, and load the state from a checkpoint");
  std::map<std::string, std::vector<size_t>> groups_of;  // a module registered twice has its parameters listed, and stepped, twice
  for (size_t group = 0; group < prototype.param_groups().size(); ++group) {
    for (const at::Tensor& tensor : prototype.param_groups()[group].params()) {
      for (const NamedTensor& parameter : parameters) {
        if (parameter.tensor.is_same(tensor)) groups_of[parameter.name].push_back(group);
      }
    }
  }
  for (const NamedTensor& parameter : parameters) {  // checked for all parameters, since pieces differ by rank
    TW_EXPECTS(groups_of.contains(parameter.name), "parameter ", parameter.name, " is not one of those that the optimizer was made for");
  }
  return [&prototype, groups_of](const std::vector<NamedTensor>& pieces) {
    std::vector<std::vector<at::Tensor>> tensors(prototype.param_groups().size());
    for (const NamedTensor& piece : pieces) {
      const auto groups = groups_of.find(piece.name);
      TW_EXPECTS(groups != groups_of.end(), "parameter ", piece.name, " is not one of those that the optimizer was made for");
      for (const size_t group : groups->second) tensors[group].push_back(piece.tensor);
    }
    std::vector<OptimizerParamGroup> groups;
    for (std::vector<at::Tensor>& group : tensors) groups.emplace_back(std::move(group));
    std::unique_ptr<Optimizer> optimizer = maker_of(prototype)(groups, prototype);
    for (size_t i = 0; i < groups.size(); ++i) optimizer->param_groups()[i].set_options(prototype.param_groups()[i].options().clone());
    return optimizer;
  };
}

void visit(ShardedOptimizerOptions& options, OptionVisitor& visitor) {
  visitor.field("max_gradient_norm", options.max_gradient_norm, {.least = 0}, {.meaning = "norm to which gradients are scaled down; 0: no limit"});
  visitor.field("one_copy_per_node", options.one_copy_per_node, {.meaning = "one copy of the parameters for all ranks of a node"});
}
void ShardedOptimizerOptions::validate() const { expect_none(out_of_bounds(*this)); }

ShardedOptimizer::ShardedOptimizer(Reducer& reducer, std::vector<NamedTensor> parameters, const OptimizerFactory& make,
                                   const ShardedOptimizerOptions& options)
    : reducer_(reducer), parameters_(std::move(parameters)), options_(options), steps_(reducer.steps()) {
  expect_agreement(reducer_.comm(), parameters_, options_);
  for (const auto& part : reducer_.options().parts) {
    expect_same_on_all_ranks(part->ranks, "the options of the sharded optimizers of a model in parts", value_lines(options_));
  }
  options_.validate();
  TW_EXPECTS(reducer_.options().sharding != Sharding::none, "a ShardedOptimizer needs sharded gradients: choose ReducerOptions::sharding");
  TW_EXPECTS(specs_of(parameters_) == reducer_.specs(),
             "the parameters are not those whose gradients are reduced: pass the parameters that the reducer was made for");
  const at::NoGradGuard no_grad;
  move_parameters();
  make_pieces();
  std::vector<NamedTensor> pieces;
  for (const Piece& piece : pieces_) pieces.push_back({parameters_[static_cast<size_t>(piece.where.gradient)].name, piece.tensor});
  on_all_ranks(reducer_.comm(), "making a sharded optimizer", [&] {
    optimizer_ = make(pieces);
    expect_shardable(*optimizer_, reducer_.options().sharding);
    for (const OptimizerParamGroup& group : optimizer_->param_groups()) {
      for (const at::Tensor& tensor : group.params()) {
        TW_EXPECTS(std::any_of(pieces_.begin(), pieces_.end(), [&](const Piece& piece) { return piece.tensor.is_same(tensor); }),
                   "the optimizer was made for a tensor of shape ", shape_text(tensor.sizes().vec()),
                   " that is not a piece of the parameters: make it over the pieces that the factory receives");
      }
    }
  });
}

ShardedOptimizer::~ShardedOptimizer() = default;

// Moves parameters into memory that is laid out like the gradients, and that the ranks of a node share.
void ShardedOptimizer::move_parameters() {
  const Communicator& comm = reducer_.comm();
  const c10::Device device = reducer_.options().device;
  TW_EXPECTS(!options_.one_copy_per_node || find_topology(comm).nodes == 1, "one_copy_per_node needs all ranks on one node");
  TW_EXPECTS(!options_.one_copy_per_node || device.is_cpu(), "one_copy_per_node needs parameters on the CPU, got some on ", device.str());
  for (const Bucket& bucket : reducer_.plan().buckets) {
    buffers_.emplace_back(options_.one_copy_per_node ? node_tensor(comm, {bucket.numel}, bucket.dtype)
                                                     : shared_tensor(comm, {bucket.numel}, at::device(device).dtype(bucket.dtype)));
    for (const int64_t id : bucket.gradients) {
      const auto& [name, parameter] = parameters_[static_cast<size_t>(id)];
      TW_EXPECTS(parameter.device() == device, "parameter '", name, "' lies on ", parameter.device().str(), ", but its gradient is reduced on ",
                 device.str(), ": see ReducerOptions::device");
      const at::Tensor place = buffers_.back().view(reducer_.plan().placements[static_cast<size_t>(id)].offset, parameter.sizes());
      place.copy_(parameter);
      parameter.set_data(place);
    }
  }
}

void ShardedOptimizer::make_pieces() {
  const bool whole = reducer_.options().sharding == Sharding::tensors;
  for (const ShardPiece& where : reducer_.pieces()) {
    const auto bucket = static_cast<size_t>(where.bucket);
    const at::Tensor& share = reducer_.shard(where.bucket);
    const int64_t begin = where.offset - (whole ? 0 : reducer_.comm().rank() * share.numel());
    const std::vector<int64_t> shape = whole ? reducer_.specs()[static_cast<size_t>(where.gradient)].shape : std::vector<int64_t>{where.count};
    Piece piece{.where = where,
                .tensor = {},
                .gradient = {},
                .reduced = FlatBuffer(share).view(begin, shape),
                .parameter = buffers_[bucket].view(where.offset, shape)};
    const bool master = is_half(piece.parameter);
    piece.tensor = master ? piece.parameter.to(at::kFloat) : piece.parameter;
    piece.gradient = master ? at::empty(shape, piece.tensor.options()) : piece.reduced;
    pieces_.push_back(std::move(piece));
  }
}

void ShardedOptimizer::step(double loss_scale) { update(loss_scale); }

bool ShardedOptimizer::step(LossScaler& scaler) {
  TW_EXPECTS(reducer_.options().check_finite, "step(scaler) needs ReducerOptions::check_finite");
  const bool finite = reducer_.finite();
  const double loss_scale = scaler.scale();
  scaler.update(finite);
  if (finite) {
    update(loss_scale);
  } else {
    skip();
  }
  return finite;
}

void ShardedOptimizer::skip() { steps_ = reducer_.steps(); }

void ShardedOptimizer::zero_grad() {
  for (const NamedTensor& parameter : parameters_) parameter.tensor.mutable_grad() = at::Tensor();
}

void ShardedOptimizer::expect_reduced_once() const {
  TW_EXPECTS(reducer_.steps() == steps_ + 1, "the gradients were reduced ", reducer_.steps() - steps_,
             " times since the last update, expected once: accumulate under no_sync()");
}

void ShardedOptimizer::update(double loss_scale) {
  expect_reduced_once();
  steps_ = reducer_.steps();
  const at::NoGradGuard no_grad;
  take_over_moved();
  take_over_changed();
  for (const Piece& piece : pieces_) {
    const bool used = reducer_.used(piece.where.gradient);
    piece.tensor.mutable_grad() = used ? piece.gradient : at::Tensor();
    if (!used) continue;
    if (!piece.gradient.is_same(piece.reduced)) piece.gradient.copy_(piece.reduced);
    if (loss_scale != 1) piece.gradient.div_(loss_scale);
  }
  if (options_.max_gradient_norm > 0) gradient_norm_ = clip(options_.max_gradient_norm, &Piece::gradient);
  optimizer_->step();
  for (const Piece& piece : pieces_) {
    if (!piece.tensor.is_same(piece.parameter)) piece.parameter.copy_(piece.tensor);
  }
  gather();
}

// Copies in values that Tensor::set_data() placed elsewhere, as torch::load() does.
void ShardedOptimizer::take_over_moved() {
  for (size_t id = 0; id < parameters_.size(); ++id) {
    const auto& [name, parameter] = parameters_[id];
    const Placement& where = reducer_.plan().placements[id];
    const TensorSpec& spec = reducer_.specs()[id];
    const at::Tensor& buffer = buffers_[static_cast<size_t>(where.bucket)].storage();
    if (parameter.is_alias_of(buffer) && parameter.storage_offset() == buffer.storage_offset() + where.offset) continue;
    TW_EXPECTS(parameter.scalar_type() == spec.dtype && parameter.sizes() == spec.shape && parameter.device() == buffer.device(), "parameter '", name,
               "' was ", spec.describe(), " on ", buffer.device().str(), " when ShardedOptimizer was made, and is ",
               TensorSpec{name, parameter.sizes().vec(), parameter.scalar_type()}.describe(), " on ", parameter.device().str(),
               ": make it after all changes of the model");
    TW_EXPECTS(!options_.one_copy_per_node, "parameter '", name,
               "' was moved out of the memory that the ranks of its node share (one_copy_per_node): change its values in place, by copy_()");
    const at::Tensor place = buffers_[static_cast<size_t>(where.bucket)].view(where.offset, spec.shape);
    place.copy_(parameter);
    parameter.set_data(place);
  }
}

// A parameter that differs from its rounded master weight was changed by the user.
void ShardedOptimizer::take_over_changed() const {
  for (const Piece& piece : pieces_) {
    if (piece.tensor.is_same(piece.parameter)) continue;
    const at::Tensor changed = piece.parameter.ne(piece.tensor.to(piece.parameter.scalar_type()));
    piece.tensor.copy_(at::where(changed, piece.parameter.to(piece.tensor.scalar_type()), piece.tensor));
  }
}

double ShardedOptimizer::clip_gradient_norm(double max_norm, double loss_scale) {
  expect_reduced_once();
  return clip(max_norm * loss_scale, &Piece::reduced) / loss_scale;
}

// Like torch::nn::utils::clip_grad_norm_.
double ShardedOptimizer::clip(double max_norm, at::Tensor Piece::* gradient) {
  const ModelPartsList& parts = reducer_.options().parts;
  GradientShare share;
  for (const Piece& piece : pieces_) {
    if (!reducer_.used(piece.where.gradient)) continue;
    const bool elsewhere = is_counted_elsewhere(parts, parameters_[static_cast<size_t>(piece.where.gradient)].name);
    (elsewhere ? share.others : share.counted).push_back(piece.*gradient);
  }
  share.sum_over.push_back(&reducer_.comm());
  for (const auto& part : parts) share.sum_over.push_back(&part->ranks);
  return tw::clip_gradient_norm(share, max_norm);
}

void ShardedOptimizer::gather() {
  const Communicator& comm = reducer_.comm();
  const Stopwatch exposed;
  if (options_.one_copy_per_node) {
    barrier(comm);  // all ranks have written; none reads old values, since each computed its gradients first
  } else {
    std::vector<Work> works;
    for (size_t i = 0; i < buffers_.size(); ++i) {
      const at::Tensor& all = buffers_[i].storage();
      const int owner = reducer_.plan().buckets[i].owner;
      const int64_t share = all.numel() / comm.size();
      works.push_back(owner >= 0 ? ibroadcast(comm, all, Rank(owner)) : iallgather(comm, all.narrow(0, comm.rank() * share, share), all));
      payload_bytes_ += owner < 0 ? static_cast<int64_t>(all.nbytes()) / comm.size() : owner == comm.rank() ? static_cast<int64_t>(all.nbytes()) : 0;
    }
    wait_all(works);
  }
  exposed_time_ += exposed.elapsed();
}

std::vector<OptimizedTensor> ShardedOptimizer::optimized() const {
  std::vector<OptimizedTensor> all;
  for (const Piece& piece : pieces_) {
    const NamedTensor& parameter = parameters_[static_cast<size_t>(piece.where.gradient)];
    const std::vector<int64_t> shape = parameter.tensor.sizes().vec();
    if (piece.tensor.sizes() == parameter.tensor.sizes()) {
      all.push_back({piece.tensor, {whole(parameter.name, piece.tensor, ShardKind::parameter)}});
      all.back().slices.front().on_reshard = OnReshard::shard;
    } else {
      all.push_back({piece.tensor, slices_of_run(parameter.name, shape, piece.tensor, piece.where.begin, ShardKind::parameter)});
    }
  }
  return all;
}

std::vector<NamedShard> ShardedOptimizer::master_shards() const {
  std::vector<NamedShard> shards;
  for (const OptimizedTensor& optimized : optimized()) {
    const bool is_master = std::any_of(pieces_.begin(), pieces_.end(), [&](const Piece& piece) {
      return piece.tensor.is_same(optimized.tensor) && !piece.tensor.is_same(piece.parameter);
    });
    if (!is_master) continue;
    for (NamedShard shard : optimized.slices) {
      shard.name = "master/" + shard.name;
      shard.kind = ShardKind::optimizer;
      shards.push_back(std::move(shard));
    }
  }
  return shards;
}

}  // namespace tw
