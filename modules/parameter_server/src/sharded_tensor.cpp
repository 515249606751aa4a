// SPDX-License-Identifier: Apache-2.0
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <thread>
#include <tw/base/concat.hpp>
#include <tw/base/contract.hpp>
#include <tw/base/error.hpp>
#include <tw/comm/agreement.hpp>
#include <tw/comm/collectives.hpp>
#include <tw/comm/shared_tensor.hpp>
#include <tw/mpi/engine.hpp>
#include <tw/mpi/revoke_on_exception.hpp>
#include <tw/mpi/topology.hpp>
#include <tw/parameter_server/sharded_tensor.hpp>
#include <tw/server_shards/shard.hpp>
#include <tw/tensor/on_cpu.hpp>
#include <tw/tensor/tensor_spec.hpp>

#include "client.hpp"
#include "server.hpp"
#include "server_state.hpp"

namespace tw::parameter_server {
namespace {

/// Rules that are always available.
std::vector<Rule> own_rules() { return {rules::zero(), rules::copy(), rules::add()}; }

/// The rules of the options, plus our own.
std::vector<Rule> complete(std::vector<Rule> rules) {
  if (rules.empty()) rules.push_back(rules::add());
  for (Rule& each : own_rules()) {
    if (std::ranges::find(rules, each.name, &Rule::name) == rules.end()) rules.push_back(std::move(each));
  }
  return rules;
}

/// @throws ContractError for errors that this rank can detect alone
void expect_rules(const std::vector<Rule>& rules) {
  const std::vector<Rule> own = own_rules();
  for (size_t i = 0; i < rules.size(); ++i) {
    TW_EXPECTS(!rules[i].name.empty(), "rule ", i, " has no name");
    TW_EXPECTS(rules[i].apply != nullptr, "rule ", rules[i].name, " has no function `apply`");
    const auto ours = std::ranges::find(own, rules[i].name, &Rule::name);
    TW_EXPECTS(ours == own.end() || rules[i].apply.target_type() == ours->apply.target_type(), "a rule of yours is called '", rules[i].name,
               "', which is the name of a built-in rule: choose another name");
    for (size_t j = 0; j < i; ++j) TW_EXPECTS(rules[i].name != rules[j].name, "rule names must be unique, but two rules are called ", rules[i].name);
  }
}

std::vector<int> servers_of(const ShardedTensorOptions& options, int ranks) {
  if (!options.servers.empty()) return options.servers;
  std::vector<int> all(static_cast<size_t>(ranks));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

void expect_dense(const at::Tensor& tensor) {
  if (!is_on_accelerator(tensor) || tensor.layout() != at::kStrided) expect_dense_on_cpu(tensor, "a sharded tensor");
}

/// A duplicate of `comm`, once all ranks have agreed on the same valid sharded tensor. Collective. @throws ContractError on all ranks
Communicator agreed_duplicate(const Communicator& comm, const at::Tensor& initial, const ShardedTensorOptions& options) {
  const std::vector<Rule> rules = complete(options.rules);
  on_all_ranks(comm, "making a sharded tensor", [&] {
    TW_EXPECTS(initial.defined(), "the initial tensor is undefined");
    expect_dense(initial);
    expect_rules(rules);
  });
  std::vector<std::string> lines{concat(dtype_name(initial.scalar_type()), ' ', shape_text(initial.sizes().vec()))};
  for (const Rule& rule : rules) lines.push_back(concat("rule ", rule.name, ' ', rule.settings, ", ", rule.slots, " slots"));
  std::string servers = "servers";
  for (const int each : options.servers) servers += concat(' ', each);
  lines.push_back(servers);
  lines.push_back(concat("share_memory ", options.share_memory));
  expect_same_on_all_ranks(comm, "a sharded tensor", lines);
  TW_EXPECTS(at::isFloatingType(initial.scalar_type()), "a sharded tensor must have a floating-point dtype, got ", dtype_name(initial.scalar_type()));
  for (size_t i = 0; i < options.servers.size(); ++i) {
    const int server = options.servers[i];
    TW_EXPECTS(server >= 0 && server < comm.size() && (i == 0 || server > options.servers[i - 1]),
               "servers must be ascending ranks of a communicator of size ", comm.size(), ", got ", server);
  }
  return comm.dup();
}

}  // namespace

class ShardedTensor::Impl {
 public:
  Impl(const Communicator& comm, const at::Tensor& initial, const ShardedTensorOptions& options)
      : comm_(agreed_duplicate(comm, initial, options)),
        rules_(std::make_shared<const std::vector<Rule>>(complete(options.rules))),
        servers_(servers_of(options, comm_.size())),
        layout_(initial.numel(), static_cast<int>(servers_.size())),
        shape_(initial.sizes().vec()),
        dtype_(initial.scalar_type()),
        element_bytes_(static_cast<int64_t>(c10::elementSize(dtype_))),
        refuse_non_finite_(options.refuse_non_finite),
        client_(comm_) {
    revoke_on_exception(comm_, [&] {
      make_shards(options.share_memory);
      comm_.barrier();
      if (comm_.rank() == 0) push(initial, "copy").wait();
      comm_.barrier();
      has_asked_ = false;
    });
  }

  /// Other ranks may still send requests or wait for responses. Their servers, and this one, respond until all have left.
  ~Impl() {
    if (!has_responders_) return;
    if (responder_) responder_->outlast(comm_.size() - 1);
    for (const int server : servers_) {
      if (server != comm_.rank()) client_.leave(Rank(server));
    }
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  Handle push(const at::Tensor& pushed, std::string_view rule) {
    expect_fit(pushed, "the pushed tensor");
    const size_t index = index_of(rule);
    const c10::MaybeOwned<at::Tensor> here = on_host(pushed);
    TW_EXPECTS(!refuse_non_finite_ || at::isfinite(*here).all().item<bool>(), "the pushed tensor has elements that are not finite");
    return with_each_server(
        *here, [&](Shard& shard, const Part& part) { shard.push(index, 0, shard.count(), part.bytes.data()); },
        [&](Rank server, const Part& part) { return client_.push(server, index, part); });
  }

  Handle pull(const at::Tensor& out) {
    expect_fit(out, "the tensor to pull into");
    TW_EXPECTS(out.is_contiguous(), "the tensor to pull into must be contiguous");
    const at::Tensor here = out.is_cpu() ? out : pinned();
    Handle handle = with_each_server(
        here, [&](const Shard& shard, const Part& part) { shard.pull(0, shard.count(), part.bytes.data()); },
        [&](Rank server, const Part& part) { return client_.pull(server, part); });
    if (!out.is_cpu()) {
      handle.arrived_ = here;
      handle.out_ = out;
    }
    return handle;
  }

  // Others may push for a long time: any activity here restarts the watchdog. A rank that only serves waits however long they compute. If a rank
  // never comes, the watchdog of the training ranks ends the job.
  void finish() {
    const bool only_serves = !std::exchange(has_asked_, false);
    revoke_on_exception(comm_, [&] {
      const auto served = [this] {
        int64_t all = responder_ ? responder_->ended() : 0;
        for (const auto& [server, shard] : shards_) all += shard.pushes();
        return all;
      };
      auto sleep_if_idle = [served, before = int64_t{-1}, pause = std::chrono::microseconds(0)]() mutable {
        constexpr auto shortest = std::chrono::microseconds(20);
        constexpr auto longest = std::chrono::microseconds(1000);
        const int64_t now = served();
        pause = now == std::exchange(before, now) ? std::clamp(2 * pause, shortest, longest) : std::chrono::microseconds(0);
        if (pause.count() > 0) std::this_thread::sleep_for(pause);
        return now;
      };
      client_.finish(sleep_if_idle);
      const auto serve = [sleep_if_idle, looks = int64_t{0}]() mutable {
        (void)sleep_if_idle();
        return ++looks;
      };
      only_serves ? ibarrier(comm_).wait(serve) : ibarrier(comm_).wait(sleep_if_idle);
    });
  }

  std::vector<NamedShard> shards(const std::string& name) const {
    if (!serves()) return {};
    return named_shards_of(shards_.at(mine_).snapshot(), slice(), name);
  }

  void restore(const std::vector<NamedShard>& given) {
    if (serves()) shards_.at(mine_).restore(snapshot_of(given, slice()));
  }

  int64_t served_bytes() const { return serves() ? Shard::bytes_needed(layout_.extent_of(mine_).size(), element_type(dtype_), *rules_) : 0; }
  const ShardLayout& layout() const noexcept { return layout_; }
  const std::vector<int>& servers() const noexcept { return servers_; }
  const Communicator& comm() const noexcept { return comm_; }
  int64_t in_flight() const noexcept { return client_.in_flight(); }
  at::Tensor empty() const { return at::empty(shape_, at::TensorOptions().dtype(dtype_)); }

 private:
  at::Tensor pinned() const { return at::empty(shape_, at::TensorOptions().dtype(dtype_).pinned_memory(true)); }
  /// Borrows a contiguous host tensor: counting references would take longer than adding 4 KiB.
  c10::MaybeOwned<at::Tensor> on_host(const at::Tensor& tensor) const {
    return tensor.is_cpu() ? tensor.expect_contiguous() : c10::MaybeOwned<at::Tensor>::owned(at::Tensor(pinned().copy_(tensor)));
  }

  /// Whether this rank holds any elements.
  bool serves() const { return mine_ >= 0 && layout_.extent_of(mine_).size() > 0; }

  ServerSlice slice() const { return {.extent = layout_.extent_of(mine_), .shape = shape_, .dtype = dtype_, .rules = *rules_}; }

  /// For waits in shards. The rank that is waited for may need messages, some of them from this rank. Request handlers may outlive this object.
  Shard::Waiting waiting() const {
    const std::weak_ptr<mpi::CommunicatorState> comm = comm_.state();
    return {.user = comm_.rank(), .wait = [comm](const std::function<bool()>& happened, int holder) {
              mpi::wait_until(Communicator(comm.lock()), {.collective = Collective::receive, .peer = holder}, happened);
            }};
  }

  /// Makes the shards that this rank can reach through memory. Collective.
  void make_shards(bool share_memory) {
    std::vector<int64_t> begins{0};
    for (int server = 0; server < layout_.servers(); ++server) {
      begins.push_back(begins.back() + Shard::bytes_needed(layout_.extent_of(server).size(), element_type(dtype_), *rules_));
    }
    const std::vector<int> neighbours = ranks_of_this_node(comm_);
    const at::Tensor memory = node_tensor(comm_, {begins.back()}, at::kByte);
    const auto owner = std::make_shared<at::Tensor>(memory);
    bool all_here = true;
    for (int server = 0; server < layout_.servers(); ++server) {
      const int rank = servers_[static_cast<size_t>(server)];
      const bool is_here = rank == comm_.rank() || (share_memory && std::binary_search(neighbours.begin(), neighbours.end(), rank));
      all_here = all_here && is_here;
      if (!is_here) continue;
      auto* begin = static_cast<std::byte*>(memory.data_ptr()) + begins[static_cast<size_t>(server)];
      shards_.emplace(server, Shard(owner, begin, layout_.extent_of(server).size(), element_type(dtype_), rules_, waiting()));
      if (rank == comm_.rank()) mine_ = server;
    }
    const at::Tensor asked = at::tensor({static_cast<int64_t>(!all_here)}, at::kLong);
    allreduce(comm_, asked, ReduceOp::max);
    has_responders_ = asked.item<int64_t>() != 0;
    if (has_responders_ && mine_ >= 0) {
      responder_.emplace(comm_, handler_for(shards_.at(mine_), element_bytes_));
    }
  }

  void expect_fit(const at::Tensor& tensor, const char* what) const {
    TW_EXPECTS(tensor.defined() && tensor.sizes() == at::IntArrayRef(shape_) && tensor.scalar_type() == dtype_, what, " is ",
               tensor.defined() ? concat(dtype_name(tensor.scalar_type()), ' ', shape_text(tensor.sizes().vec())) : std::string("undefined"),
               ", but the sharded tensor is ", dtype_name(dtype_), ' ', shape_text(shape_));
    expect_dense(tensor);
  }

  size_t index_of(std::string_view rule) const {
    if (rule.empty()) return 0;
    const auto found = std::find_if(rules_->begin(), rules_->end(), [&](const Rule& each) { return each.name == rule; });
    TW_EXPECTS(found != rules_->end(), "the sharded tensor has no rule ", rule);
    return static_cast<size_t>(found - rules_->begin());
  }

  /// Messages are sent first, so that they travel while this rank works in its node's memory. Ranks start with different servers.
  template <class Here, class Elsewhere>
  Handle with_each_server(const at::Tensor& tensor, Here here, Elsewhere elsewhere) {
    has_asked_ = true;
    if (responder_) progress(comm_);  // others may wait for this rank, even if it waits for none
    auto* const data = static_cast<std::byte*>(tensor.data_ptr());
    Handle handle;
    for (const bool now_here : {false, true}) {
      for (int i = 0; i < layout_.servers(); ++i) {
        const int server = (i + comm_.rank()) % layout_.servers();
        const Extent extent = layout_.extent_of(server);
        const auto shard = shards_.find(server);
        if (extent.size() == 0 || (shard != shards_.end()) != now_here) continue;
        const Part part{tensor, {data + extent.begin * element_bytes_, static_cast<size_t>(extent.size() * element_bytes_)}};
        if (!now_here) {
          Client::Answer answer = elsewhere(Rank(servers_[static_cast<size_t>(server)]), part);
          handle.parts_.push_back(std::move(answer.work));
          handle.failures_.push_back(std::move(answer.failure));
          continue;
        }
        try {
          here(shard->second, part);
        } catch (...) {
          if (!handle.failure_) handle.failure_ = std::current_exception();
        }
      }
    }
    return handle;
  }

  Communicator comm_;
  std::shared_ptr<const std::vector<Rule>> rules_;
  std::vector<int> servers_;
  ShardLayout layout_;
  std::vector<int64_t> shape_;
  c10::ScalarType dtype_;
  int64_t element_bytes_;
  bool refuse_non_finite_;
  Client client_;
  std::map<int, Shard> shards_;  // of this node, by server
  int mine_ = -1;                // this rank's index among the servers; -1: none
  bool has_responders_ = false;  // whether servers answer messages of ranks that cannot reach their memory
  bool has_asked_ = false;       // whether this rank has pushed or pulled since the last finish()
  std::optional<mpi::RpcServer> responder_;
};

ShardedTensor::ShardedTensor(const Communicator& comm, const at::Tensor& initial, const ShardedTensorOptions& options)
    : impl_(std::make_unique<Impl>(comm, initial, options)) {}
ShardedTensor::~ShardedTensor() = default;
ShardedTensor::ShardedTensor(ShardedTensor&&) noexcept = default;
ShardedTensor& ShardedTensor::operator=(ShardedTensor&&) noexcept = default;

ShardedTensor::Handle ShardedTensor::push(const at::Tensor& pushed, std::string_view rule) { return impl_->push(pushed, rule); }
ShardedTensor::Handle ShardedTensor::pull(const at::Tensor& out) const { return impl_->pull(out); }
ShardedTensor::Prefetched ShardedTensor::prefetch() const {
  at::Tensor values = impl_->empty();
  Handle handle = impl_->pull(values);
  return {std::move(values), std::move(handle)};
}
void ShardedTensor::finish() { impl_->finish(); }
std::vector<NamedShard> ShardedTensor::shards(const std::string& name) const { return impl_->shards(name); }
void ShardedTensor::restore(const std::vector<NamedShard>& shards) { impl_->restore(shards); }
int64_t ShardedTensor::served_bytes() const { return impl_->served_bytes(); }
const ShardLayout& ShardedTensor::layout() const noexcept { return impl_->layout(); }
const std::vector<int>& ShardedTensor::servers() const noexcept { return impl_->servers(); }
const Communicator& ShardedTensor::comm() const noexcept { return impl_->comm(); }
int64_t ShardedTensor::in_flight() const noexcept { return impl_->in_flight(); }

bool ShardedTensor::Handle::test() {
  bool all = true;
  for (Work& part : parts_) all = part.test() && all;
  if (all) finish();
  return all;
}

void ShardedTensor::Handle::wait() {
  wait_all(parts_);
  finish();
}

void ShardedTensor::Handle::finish() {
  if (failure_) std::rethrow_exception(failure_);
  for (const auto& each : failures_) {
    if (!each->empty()) throw Error(concat("the rule applied by a push failed ", *each));
  }
  if (!out_.defined()) return;
  const at::NoGradGuard no_grad;
  out_.copy_(arrived_, /*non_blocking=*/true);
  out_.reset();
}

at::Tensor ShardedTensor::Prefetched::take() {
  handle_.wait();
  return values_;
}

}  // namespace tw::parameter_server
