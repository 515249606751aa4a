// SPDX-License-Identifier: Apache-2.0
#include "helpers.hpp"

#include <algorithm>
#include <tw/base/clock.hpp>
#include <utility>

namespace tw::search {

std::vector<int32_t> Helpers::gather(const Claim& claim) {
  const Layout& layout = place_.layout;
  const int begin = layout.first_worker(place_.island);
  const int end = layout.first_worker(place_.island + 1);
  std::map<int, int> others;
  for (int worker = begin; worker < end; ++worker) {
    if (worker != place_.worker) others[worker] = layout.ranks_of(worker);
  }
  gathering_.emplace(place_.worker, layout.ranks_of(place_.worker), place_.options.growth->ranks_at(claim.rung), std::move(others));
  if (gathering_->is_over()) return std::exchange(gathering_, std::nullopt)->workers();

  post_.send_all(RanksRequest{.request = ++request_, .rung = claim.rung, .trial = claim.trial, .ranks = gathering_->left()}, begin, end);
  post_.send_gathered(true);
  const Stopwatch watch;
  bool gives_up = false;
  while (!gathering_->is_over() && !gives_up && watch.elapsed().count() < place_.options.growth->patience) {
    post_.deliver(Post::a_look);
    gives_up = is_asked_by_a_claim_before(claim);
  }
  std::vector<int32_t> workers;
  if (!gives_up) workers = gathering_->workers();
  gathering_.reset();
  post_.send_all(TeamMessage{.request = request_, .workers = workers}, begin, end);
  post_.send_gathered(true);
  return workers;
}

bool Helpers::help(const std::optional<Claim>& own, const std::function<void()>& attend) {
  const auto first = first_of_use();
  if (first == standing_.end() || (own && !first->second.claim().precedes(*own))) return false;
  const int whom = first->first;
  const int64_t request = first->second.request;
  post_.send(RanksOffer{.request = request}, whom);
  post_.send_gathered(true);
  const auto stands = [&] {
    const auto found = standing_.find(whom);
    return found != standing_.end() && found->second.request == request;
  };
  while (stands()) post_.deliver(Post::a_look);
  const std::vector<int32_t> team = std::exchange(called_, {});
  if (team.empty()) return true;
  const Stopwatch watch;
  evaluator_.help(team, {.attend = attend});
  busy_s_ += watch.elapsed().count();
  return true;
}

void Helpers::take(const RanksRequest& request, int from) {
  if (place_.layout.ranks_of(place_.worker) <= request.ranks) standing_[from] = request;
}

void Helpers::take(const RanksOffer& offer, int from) {
  if (gathering_ && offer.request == request_) gathering_->offer(from);
}

void Helpers::take(const TeamMessage& message, int from) {
  standing_.erase(from);
  if (std::ranges::find(message.workers, place_.worker) != message.workers.end()) called_ = message.workers;
}

Helpers::Standing::const_iterator Helpers::first_of_use() const {
  return std::ranges::min_element(standing_, [](const auto& a, const auto& b) { return a.second.claim().precedes(b.second.claim()); });
}

bool Helpers::is_asked_by_a_claim_before(const Claim& own) const {
  const auto first = first_of_use();
  return first != standing_.end() && first->second.claim().precedes(own);
}

}  // namespace tw::search
