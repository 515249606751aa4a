// SPDX-License-Identifier: Apache-2.0
#include "order_check.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <mutex>
#include <set>
#include <tw/base/concat.hpp>
#include <tw/comm/collectives.hpp>
#include <tw/mpi/library.hpp>

#include "open_passes.hpp"

namespace tw {
namespace {

struct KnownCheck {
  std::weak_ptr<mpi::CommunicatorState> comm;
  std::weak_ptr<OrderCheck> check;
};

// How models find a shared check: the user wraps each of them separately.
std::mutex known_checks_mutex;
std::vector<KnownCheck> known_checks;
int64_t last_check_id = 0;

std::shared_ptr<OrderCheck> find_living_check(const Communicator& comm) {
  const std::lock_guard lock(known_checks_mutex);
  std::erase_if(known_checks, [](const KnownCheck& each) { return each.check.expired(); });
  const auto found = std::find_if(known_checks.begin(), known_checks.end(), [&](const KnownCheck& each) { return each.comm.lock() == comm.state(); });
  return found == known_checks.end() ? nullptr : found->check.lock();
}

// Encodes a unit of a model in one number.
constexpr int64_t max_units = int64_t{1} << 32;
int64_t event_number(int64_t model, int64_t unit) { return model * max_units + unit + 1; }

}  // namespace

std::shared_ptr<OrderCheck> OrderCheck::of(const Communicator& comm) {
  std::shared_ptr<OrderCheck> check = find_living_check(comm);
  const int64_t mine = check && check->difference_.empty() ? check->id_ : 0;
  int64_t next = 0;
  {
    const std::lock_guard lock(known_checks_mutex);
    next = last_check_id + 1;
  }
  const at::Tensor largest = at::tensor({mine, -mine, next}, at::TensorOptions().dtype(at::kLong));
  allreduce(comm, largest, ReduceOp::max);
  const auto* const of_all = largest.const_data_ptr<int64_t>();
  if (mine != 0 && of_all[0] == mine && of_all[1] == -mine) return check;
  check = std::make_shared<OrderCheck>(comm, of_all[2]);
  const std::lock_guard lock(known_checks_mutex);
  last_check_id = std::max(last_check_id, of_all[2]);
  known_checks.insert(known_checks.begin(), {comm.state(), check});
  return check;
}

OrderCheck::OrderCheck(const Communicator& comm, int64_t id) : lasting_(comm.dup()), comm_(lasting_.dup()), id_(id) {
  mpi::set_activity(comm_, OpenPasses::activity);
}

void OrderCheck::revoke(const std::string& why) const {
  if (!comm_.revoked()) comm_.revoke(why);
}

void OrderCheck::restart() {
  if (!comm_.revoked()) return;
  comm_ = lasting_.dup();
  mpi::set_activity(comm_, OpenPasses::activity);
  open_.clear();
  begun_ = 0;
  difference_.clear();
}

int64_t OrderCheck::add(std::vector<std::string> units) {
  models_.emplace(next_model_, std::move(units));
  return next_model_++;
}

int64_t OrderCheck::begin(int64_t model, int64_t unit) {
  if (comm_.size() > 1) {
    const at::Tensor of_ranks = at::empty({comm_.size()}, at::TensorOptions().dtype(at::kLong));
    of_ranks.mutable_data_ptr<int64_t>()[static_cast<int>(comm_.rank())] = event_number(model, unit);
    open_.push_back({of_ranks, iallgather(comm_, of_ranks.narrow(0, static_cast<int>(comm_.rank()), 1), of_ranks)});
  }
  return begun_++;
}

const std::string& OrderCheck::difference_up_to(int64_t event) {
  while (difference_.empty() && !open_.empty() && begun_ - static_cast<int64_t>(open_.size()) <= event) {
    Event first = std::move(open_.front());
    open_.pop_front();
    first.exchange.wait();
    const auto* const begin = first.of_ranks.const_data_ptr<int64_t>();
    const std::vector<int64_t> all(begin, begin + comm_.size());
    if (std::any_of(all.begin(), all.end(), [&](int64_t each) { return each != all.front(); })) difference_ = describe(all);
  }
  return difference_;
}

std::string OrderCheck::describe(const std::vector<int64_t>& of_ranks) const {
  std::set<int64_t> models;
  for (const int64_t number : of_ranks) models.insert(number / max_units);
  std::string text =
      "the ranks use parameters in different orders, and would receive wrong values. The next unit of each rank, named by its first parameter:";
  for (size_t rank = 0; rank < of_ranks.size(); ++rank) {
    const int64_t unit = of_ranks[rank] % max_units - 1;
    const auto model = models_.find(of_ranks[rank] / max_units);
    const bool is_known = model != models_.end() && unit != end_of_pass;
    text += concat("\n  rank ", rank, ": ",
                   unit == end_of_pass ? "the end of the backward pass"
                   : is_known          ? model->second.at(static_cast<size_t>(unit))
                                       : concat("unit ", unit));
    if (models.size() > 1) text += concat(", of model ", of_ranks[rank] / max_units + 1);
  }
  if (models.size() > 1) text += "\nModels are numbered in the order in which they were wrapped. Call them in the same order on all ranks";
  return text;
}

}  // namespace tw
