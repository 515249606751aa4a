// SPDX-License-Identifier: Apache-2.0
#include "strategy.hpp"

#include <ATen/ops/full_like.h>
#include <ATen/ops/zeros.h>
#include <torch/optim/optimizer.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <tw/base/contract.hpp>
#include <tw/base/log.hpp>
#include <tw/comm/collectives.hpp>
#include <tw/data_parallel/data_parallel.hpp>
#include <tw/data_parallel/diloco.hpp>
#include <tw/data_parallel/local_sgd.hpp>
#include <tw/gradients/compression.hpp>
#include <tw/gradients/sharded_optimizer.hpp>
#include <tw/state/optimizer_state.hpp>
#include <utility>

#include "by_servers.hpp"
#include "diloco_options.hpp"
#include "non_finite.hpp"

namespace tw::train {
namespace {

using torch::optim::Optimizer;

void append(std::vector<NamedShard>& shards, std::vector<NamedShard> more) {
  shards.insert(shards.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

std::vector<NamedShard> parameter_shards(const Model& model) {
  std::vector<NamedShard> shards;
  if (model.parts) {
    shards = model.parts->shards();
    std::erase_if(shards, [](const NamedShard& shard) { return shard.kind != ShardKind::parameter; });
    return shards;
  }
  for (const auto& [name, tensor] : model.parameters) shards.push_back(whole(name, tensor, ShardKind::parameter));
  return shards;
}

std::shared_ptr<Compressor> make_compressor(const StrategyOptions& options) {
  switch (options.compression) {
    case CompressionKind::none: return nullptr;
    case CompressionKind::float16: return half_compression(HalfPrecision::float16);
    case CompressionKind::bfloat16: return half_compression(HalfPrecision::bfloat16);
    case CompressionKind::top_k: return top_k_compression({.fraction = options.top_k_fraction});
    case CompressionKind::power_sgd: return power_sgd_compression({.rank = options.power_sgd_rank});
  }
  return nullptr;
}

// Nothing, if it is the order of another model's gradients: one whose layers were frozen or not, as these are not.
std::vector<int64_t> usable(const Communicator& comm, std::vector<int64_t> order, const Model& model) {
  const auto trained = std::count_if(model.parameters.begin(), model.parameters.end(), [](const NamedTensor& p) { return p.tensor.requires_grad(); });
  if (order.empty() || order.size() + model.sparse.size() == static_cast<size_t>(trained)) return order;
  if (comm.rank() == 0) log_warning("the run to be resumed trained other parameters: the order in which gradients arrive is found anew");
  return {};
}

OptimizerState state_of(Optimizer& optimizer, const Model& model) {
  return model.parts ? OptimizerState(optimizer, model.parts->optimized_tensors()) : OptimizerState(optimizer, model.parameters);
}

/// The ranks meet in every update: gradients are reduced.
class Reduced : public Strategy {
 public:
  Reduced(const Ranks& ranks, const Model& model, const ReducerOptions& options)
      : parts_(ranks.parts), parallel_(ranks.data, model.all_tensors(), options) {}

  // The sum over ranks and passes is the mean over the update's samples.
  void backward(const at::Tensor& loss, int64_t here, int64_t samples, bool last) override {
    std::optional<DataParallel::NoSync> local;
    if (!last) local.emplace(parallel_.no_sync());
    loss.backward(at::full_like(loss, static_cast<double>(here) / static_cast<double>(samples)));
  }

  std::shared_ptr<void> pause() override { return std::make_shared<DataParallel::NoSync>(parallel_.no_sync()); }
  void say(Word word) override { parallel_.give_notice(static_cast<int>(word)); }
  std::vector<int64_t> arrival_order() const override { return parallel_.reducer().arrival_order(); }
  Seconds exposed_time() const override { return parallel_.exposed_time(); }
  int64_t payload_bytes() const override { return parallel_.reducer().payload_bytes(); }

 protected:
  Outcome outcome() const {
    const bool here = parallel_.notices(static_cast<int>(Word::trouble)) > 0 || !parallel_.gradients_finite();
    const auto [trouble, stop] = of_all_parts(here, parallel_.notices(static_cast<int>(Word::stop)) > 0);
    return {.left_out = trouble, .trouble = trouble, .stop = stop};
  }

 private:
  // What one part of a model must not do, the others must not either.
  std::pair<bool, bool> of_all_parts(bool trouble, bool stop) const {
    if (parts_ == nullptr) return {trouble, stop};
    const at::Tensor flags = at::zeros({2}, at::TensorOptions().dtype(at::kInt));
    auto* const values = flags.mutable_data_ptr<int32_t>();
    values[0] = trouble ? 1 : 0;
    values[1] = stop ? 1 : 0;
    allreduce(*parts_, flags, ReduceOp::max);
    return {values[0] != 0, values[1] != 0};
  }

  const Communicator* parts_;

 protected:
  DataParallel parallel_;
};

class Data : public Reduced {
 public:
  Data(const Ranks& ranks, const Model& model, Optimizer& optimizer, const ReducerOptions& options)
      : Reduced(ranks, model, options), model_(model), compressor_(options.compressor), optimizer_(optimizer), state_(state_of(optimizer, model)) {}

  void zero_grad() override { optimizer_.zero_grad(); }
  Outcome update() override {
    const Outcome result = outcome();
    if (!result.left_out) optimizer_.step();
    return result;
  }
  Optimizer& optimizer() override { return optimizer_; }
  std::vector<NamedShard> shards() const override {
    std::vector<NamedShard> shards = parameter_shards(model_);
    append(shards, state_.shards());
    if (compressor_) append(shards, compressor_->shards());
    return shards;
  }
  void prepare(const std::vector<std::string>& names) override { state_.prepare(names); }
  void apply(const std::vector<NamedShard>& shards) override { state_.apply(shards); }

 private:
  const Model& model_;
  std::shared_ptr<Compressor> compressor_;
  Optimizer& optimizer_;
  OptimizerState state_;
};

class Sharded : public Reduced {
 public:
  Sharded(const Ranks& ranks, const Model& model, const Optimizer& prototype, const ReducerOptions& reducer, const ShardedOptimizerOptions& options)
      : Reduced(ranks, model, reducer),
        model_(model),
        optimizer_(parallel_.reducer(), parallel_.parameters(), optimizer_like(prototype, parallel_.parameters()), options),
        state_(optimizer_.local(), optimizer_.optimized()) {}

  void zero_grad() override { optimizer_.zero_grad(); }
  Outcome update() override {
    const Outcome result = outcome();
    if (result.left_out) {
      optimizer_.skip();
    } else {
      optimizer_.step();
    }
    return result;
  }
  Optimizer& optimizer() override { return optimizer_.local(); }
  std::vector<NamedShard> shards() const override {
    std::vector<NamedShard> shards = parameter_shards(model_);
    append(shards, state_.shards());
    append(shards, optimizer_.master_shards());
    return shards;
  }
  void prepare(const std::vector<std::string>& names) override { state_.prepare(names); }
  void apply(const std::vector<NamedShard>& shards) override { state_.apply(shards); }
  Seconds exposed_time() const override { return Reduced::exposed_time() + optimizer_.exposed_time(); }
  int64_t payload_bytes() const override { return Reduced::payload_bytes() + optimizer_.payload_bytes(); }

 private:
  const Model& model_;
  ShardedOptimizer optimizer_;
  OptimizerState state_;
};

/// The ranks train alone, and meet when `Outer` says so.
template <class Outer>
class Local : public Strategy {
 public:
  template <class Options>
  Local(const Communicator& comm, const Model& model, Optimizer& optimizer, const Options& options)
      : comm_(comm), model_(model), outer_(make_outer(comm, model, optimizer, options)), optimizer_(optimizer), state_(optimizer, model.parameters) {}

  void zero_grad() override { optimizer_.zero_grad(); }
  // Such that the mean over the ranks of what they follow is the gradient of the mean over all samples.
  void backward(const at::Tensor& loss, int64_t here, int64_t samples, bool /*last*/) override {
    loss.backward(at::full_like(loss, static_cast<double>(here * comm_.size()) / static_cast<double>(samples)));
  }
  void say(Word word) override {
    said_[static_cast<size_t>(word)] = 1;
    trouble_ = trouble_ || word == Word::trouble;
  }
  Outcome update() override {
    if constexpr (by_servers) outer_.average();
    const bool left_out = std::exchange(trouble_, false) || !gradients_finite();
    if (left_out) said_[static_cast<size_t>(Word::trouble)] = 1;
    if (!left_out) optimizer_.step();
    Outcome outcome = outer_.step() ? hear() : Outcome{};
    outcome.left_out = left_out;
    return outcome;
  }
  Outcome meet() override {
    outer_.finish();
    return hear();
  }
  Optimizer& optimizer() override { return optimizer_; }
  // Each rank's own.
  std::vector<NamedShard> shards() const override {
    std::vector<NamedShard> shards = parameter_shards(model_);
    append(shards, state_.shards());
    for (NamedShard& shard : shards) {
      if (shard.kind == ShardKind::counter) shard.tensor = shard.tensor.to(at::kDouble);  // whole numbers have no mean
      shard.on_reshard = OnReshard::mean;
    }
    append(shards, outer_.shards());
    return shards;
  }
  void prepare(const std::vector<std::string>& names) override { state_.prepare(names); }
  void apply(const std::vector<NamedShard>& shards) override {
    state_.apply(shards);
    if constexpr (by_servers) outer_.restore(shards);
  }
  Seconds exposed_time() const override { return outer_.exposed_time(); }
  int64_t payload_bytes() const override { return outer_.bytes_communicated(); }
  const parameter_server::Traffic* server_traffic() const override {
    if constexpr (by_servers) return &outer_.traffic();
    return nullptr;
  }

 private:
  static constexpr bool by_servers = std::is_same_v<Outer, ByServers>;

  template <class Options>
  static Outer make_outer(const Communicator& comm, const Model& model, const Optimizer& optimizer, const Options& options) {
    if constexpr (by_servers) {
      return Outer(comm, model.all_tensors(), optimizer, options);
    } else {
      return Outer(comm, model.all_tensors(), options);
    }
  }

  bool gradients_finite() const {
    return std::all_of(model_.parameters.begin(), model_.parameters.end(), [](const NamedTensor& parameter) {
      const at::Tensor& gradient = parameter.tensor.grad();
      return !gradient.defined() || is_finite(gradient);
    });
  }

  Outcome hear() {
    const at::Tensor heard = at::zeros({2}, at::TensorOptions().dtype(at::kInt));
    std::copy(said_.begin(), said_.end(), heard.mutable_data_ptr<int32_t>());
    said_ = {};
    allreduce(comm_, heard, ReduceOp::sum);
    const auto* counts = heard.const_data_ptr<int32_t>();
    return {.trouble = counts[static_cast<int>(Word::trouble)] > 0, .stop = counts[static_cast<int>(Word::stop)] > 0};
  }

  const Communicator& comm_;
  const Model& model_;
  Outer outer_;
  Optimizer& optimizer_;
  OptimizerState state_;
  std::array<int32_t, 2> said_{};  // since the ranks last met
  bool trouble_ = false;           // in this update
};

}  // namespace

std::unique_ptr<Strategy> make_strategy(const Ranks& ranks, const Model& model, Optimizer& optimizer, const StrategyOptions& options,
                                        std::vector<int64_t> arrival_order, const OnCommunication& on_communication) {
  const Communicator& comm = ranks.data;
  TW_EXPECTS(!model.parts || (options.kind == StrategyKind::data && options.compression == CompressionKind::none),
             "a model in parts along the axis '", model.parts ? model.parts->axis : "", "' is trained with strategy data, without compression");
  ReducerOptions reducer{.reduction = Reduction::sum,
                         .check_finite = true,
                         .arrival_order = model.parts ? std::vector<int64_t>() : usable(comm, std::move(arrival_order), model),
                         .sparse = model.sparse,
                         .compressor = make_compressor(options),
                         .on_bucket = [on_communication](int64_t bucket, auto begin, auto end) {
                           if (on_communication) on_communication("all-reduce", bucket, begin, end);
                         }};
  switch (options.kind) {
    case StrategyKind::data: return std::make_unique<Data>(ranks, model, optimizer, reducer);
    case StrategyKind::sharded:
      reducer.sharding = Sharding::slices;
      reducer.release = options.release_gradients;
      return std::make_unique<Sharded>(ranks, model, optimizer, reducer, ShardedOptimizerOptions{.one_copy_per_node = options.one_copy_per_node});
    case StrategyKind::local_sgd: return std::make_unique<Local<LocalSgd>>(comm, model, optimizer, LocalSgdOptions{.period = options.period});
    case StrategyKind::diloco: return std::make_unique<Local<DiLoCo>>(comm, model, optimizer, diloco_options(options));
    case StrategyKind::parameter_server:
      return std::make_unique<Local<ByServers>>(comm, model, optimizer, ByServers::Options{options, [on_communication](auto begin, auto end) {
                                                                                             if (on_communication) {
                                                                                               on_communication("exchange", 0, begin, end);
                                                                                             }
                                                                                           }});
  }
  return nullptr;
}

}  // namespace tw::train
