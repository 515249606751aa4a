// SPDX-License-Identifier: Apache-2.0
#include "centre.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <limits>
#include <thread>
#include <tw/base/concat.hpp>
#include <tw/base/contract.hpp>
#include <tw/base/log.hpp>
#include <tw/comm/agreement.hpp>
#include <tw/comm/collectives.hpp>
#include <tw/mpi/engine.hpp>
#include <tw/mpi/revoke_on_exception.hpp>
#include <utility>

namespace tw::parameter_server {
namespace {

std::vector<std::string> lines_of(const Roles& roles) {
  std::string servers = "servers";
  for (const int each : roles.servers) servers += concat(' ', each);
  return {concat("ranks_per_worker ", roles.ranks_per_worker), servers, concat("dedicated ", roles.dedicated)};
}

std::string late_workers(const Clocks::Reading& reading, const RankRoles& roles, int64_t clock) {
  std::string text;
  for (size_t w = 0; w < reading.ticks.size(); ++w) {
    if (reading.left[w] || reading.ticks[w] >= clock) continue;
    text += concat(text.empty() ? "" : ", ", "worker ", w, " (rank ", roles.leaders()[w], ") at clock ", reading.ticks[w]);
  }
  return text;
}

}  // namespace

RankRoles agreed_roles(const Communicator& comm, const Roles& roles) {
  expect_same_on_all_ranks(comm, "the roles of ranks", lines_of(roles));
  return {roles, comm.size()};
}

Centre::Centre(const Communicator& comm, RankRoles roles, const at::Tensor& initial, const std::vector<Rule>& rules, bool share_memory)
    : roles_(std::move(roles)),
      worker_(roles_.worker_of(comm.rank())),
      type_(initial.options()),
      shape_(initial.sizes().vec()),
      group_(comm.split(trains() ? worker_ : roles_.workers(), comm.rank())) {
  const bool is_member = place_of(comm.rank()) >= 0;
  Communicator members = comm.split(is_member ? 0 : 1, comm.rank());
  if (is_member) {
    std::vector<int> servers;
    for (const int each : roles_.servers()) servers.push_back(place_of(each));
    const int own = roles_.leaders().end() != std::find(roles_.leaders().begin(), roles_.leaders().end(), comm.rank()) ? worker_ : -1;
    ShardedTensor values(members, initial, {.rules = rules, .servers = servers, .share_memory = share_memory});
    Clocks clocks(members, roles_.workers(), own, servers.front(), share_memory);
    link_.emplace(Link{std::move(members), std::move(values), std::move(clocks)});
  }
}

int Centre::place_of(int rank) const {
  const auto& members = roles_.members();
  const auto at = std::lower_bound(members.begin(), members.end(), rank);
  return at != members.end() && *at == rank ? static_cast<int>(at - members.begin()) : -1;
}

const ShardedTensor& Centre::tensor() const {
  TW_EXPECTS(link_.has_value(), "this rank neither serves nor leads a worker, so it has no sharded tensor");
  return link_->values;
}

void Centre::push(const at::Tensor& pushed, std::string_view rule) {
  if (!leads()) return;
  wait_for_push();
  revoke_on_exception(group_, [&] {
    clocks_at_push_ = link_->clocks.ask();
    pushed_ = link_->values.push(pushed, rule);
    if (pushed_.test()) wait_for_push();
  });
}

void Centre::wait_for_push() {
  if (!leads() || !clocks_at_push_) return;
  const Stopwatch watch;
  const auto clocks = revoke_on_exception(group_, [&] {
    pushed_.wait();
    return Clocks::read(*std::exchange(clocks_at_push_, std::nullopt));
  });
  traffic_.waited += watch.elapsed();
  link_->clocks.tick();
  ++traffic_.pushes;
  const int64_t age = clocks.sum_without(worker_) - others_seen_;
  ++traffic_.staleness[static_cast<size_t>(std::clamp<int64_t>(age, 0, static_cast<int64_t>(traffic_.staleness.size()) - 1))];
}

void Centre::prefetch() {
  if (std::exchange(has_prefetched_, true) || !leads()) return;
  clocks_at_pull_ = link_->clocks.ask();  // before the values, which may then include more pushes than the clocks count, never fewer
  prefetched_ = link_->values.prefetch();
}

at::Tensor Centre::pull() {
  prefetch();
  has_prefetched_ = false;
  if (!leads()) return broadcast_to_worker(at::empty(shape_, type_));
  const Stopwatch watch;
  const auto [values, clocks] = revoke_on_exception(group_, [&] {
    at::Tensor taken = std::exchange(prefetched_, std::nullopt)->take();
    return std::pair(std::move(taken), Clocks::read(*std::exchange(clocks_at_pull_, std::nullopt)));
  });
  traffic_.waited += watch.elapsed();
  ++traffic_.pulls;
  others_seen_ = clocks.sum_without(worker_);
  slowest_seen_ = clocks.slowest();
  return broadcast_to_worker(values);
}

at::Tensor Centre::broadcast_to_worker(at::Tensor values) const {
  if (group_.size() > 1) broadcast(group_, values, Rank(0));
  return values;
}

void Centre::wait_for_all(int64_t clock, Seconds warn_after) {
  if (!leads()) return;
  wait_for_push();
  const Stopwatch watch;
  bool warned = false;
  Clocks::Reading now;
  auto pause = std::chrono::microseconds(0);  // sleeps, so that the wait keeps no core busy
  const auto read = [&] {
    if (pause.count() > 0) std::this_thread::sleep_for(pause);
    pause = std::clamp(2 * pause, std::chrono::microseconds(20), std::chrono::microseconds(1000));
    now = Clocks::read(link_->clocks.ask());
    if (warned || now.slowest() >= clock || watch.elapsed() <= warn_after) return;
    warned = true;
    log_warning("this worker, at clock ", traffic_.pushes, ", is waiting for ", late_workers(now, roles_, clock));
  };
  revoke_on_exception(group_, [&] {
    read();
    for (size_t w = 0; w < now.left.size(); ++w) {
      const auto has_come = [&] { return now.left[w] || now.ticks[w] >= clock; };
      const auto comes = [&] {
        if (!has_come()) read();
        return has_come();
      };
      const Call call{.collective = Collective::receive, .peer = place_of(roles_.leaders()[w])};
      mpi::wait_until(link_->comm, call, comes, [&] { return now.sum_without(worker_); });
    }
  });
  traffic_.waited += watch.elapsed();
}

at::Tensor Centre::finish() {
  wait_for_push();
  forget_reading();
  if (leads()) link_->clocks.leave();
  wait_for_all(std::numeric_limits<int64_t>::max(), Seconds(std::numeric_limits<double>::infinity()));
  at::Tensor values = at::empty(shape_, type_);
  revoke_on_exception(group_, [&] {
    if (!link_) return;
    link_->clocks.finish();
    link_->values.finish();
    values = link_->values.prefetch().take();
    if (leads()) link_->clocks.restart();
    link_->clocks.finish();
    link_->values.finish();
  });
  return broadcast_to_worker(std::move(values));
}

/// Drops prefetched values and clock readings, which finish() and restore() make obsolete.
void Centre::forget_reading() {
  prefetched_.reset();
  clocks_at_pull_.reset();
  has_prefetched_ = false;
  others_seen_ = slowest_seen_ = 0;
}

std::vector<NamedShard> Centre::shards(const std::string& name) const { return link_ ? link_->values.shards(name) : std::vector<NamedShard>(); }

void Centre::restore(const std::vector<NamedShard>& shards) {
  wait_for_push();
  forget_reading();
  if (leads()) link_->clocks.leave();  // others may wait for a step that this worker will not make
  revoke_on_exception(group_, [&] {
    if (!link_) return;
    link_->clocks.finish();
    link_->values.finish();  // after this, no rank pushes
    revoke_on_exception(link_->comm, [&] { link_->values.restore(shards); });
    if (leads()) link_->clocks.restart();
    link_->clocks.finish();
  });
  group_.barrier();
}

}  // namespace tw::parameter_server
