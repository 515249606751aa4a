// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <optional>
#include <vector>

#include "evaluator.hpp"
#include "gathering.hpp"
#include "place.hpp"
#include "post.hpp"

namespace tw::search {

/// How trials of a worker get the ranks of others of its island, and how these get its own.
///
/// a. A worker whose trial wants ranks asks all others of the island.
/// b. Who comes to be between two trials while the request stands offers itself to the claim that precedes all others, and waits.
/// c. When offers suffice, or patience ends, whoever asked tells all who takes part. These evaluate, and are free again; the others are at once.
///
/// Who asks, and is asked by a claim that precedes its own, gives up and offers itself. Nobody waits but for who waits for a time that is limited.
class Helpers {
 public:
  Helpers(const Place& place, Evaluator& evaluator, Post& post) : place_(place), evaluator_(evaluator), post_(post) {}

  /// The workers on which a trial of this one runs now, this one first. Waits no longer than `growth.patience`.
  /// @return empty: this worker is to help() before
  std::vector<int32_t> gather(const Claim& claim);
  /// Evaluates with another worker, if one asks whose claim precedes that of this one. @param attend what to do meanwhile, as in Evaluator::Listener
  /// @return false: none asks
  bool help(const std::optional<Claim>& own, const std::function<void()>& attend);

  void take(const RanksRequest& request, int from);
  void take(const RanksOffer& offer, int from);
  void take(const TeamMessage& message, int from);

  /// In which this worker helped.
  double busy_s() const noexcept { return busy_s_; }

 private:
  using Standing = std::map<int, RanksRequest>;  // by who asks
  Standing::const_iterator first_of_use() const;
  bool is_asked_by_a_claim_before(const Claim& own) const;

  const Place place_;
  Evaluator& evaluator_;
  Post& post_;
  Standing standing_;
  std::optional<Gathering> gathering_;
  int64_t request_ = 0;          // the number of the last one: offers to those before come too late
  std::vector<int32_t> called_;  // the team that this worker is to be part of
  double busy_s_ = 0;
};

}  // namespace tw::search
