// SPDX-License-Identifier: Apache-2.0
#include "retired.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <span>
#include <tw/mpi/collectives.hpp>
#include <utility>

#include "control.hpp"

namespace tw::mpi {
namespace {

/// One rank's counts for a communicator that it has dropped.
struct Offer {
  uint64_t key;
  Traffic traffic;
};

std::vector<Offer> offers_of_all(const Communicator& comm, const std::vector<Retired>& mine) {
  std::vector<Offer> own;
  for (const Retired& retired : mine) {
    if (!retired.may_hold_leftovers) own.push_back({retired.key, retired.traffic});
  }
  const auto bytes = static_cast<int64_t>(own.size() * sizeof(Offer));
  std::vector<int64_t> sizes(static_cast<size_t>(comm.size()));
  allgather(comm, std::as_bytes(std::span(&bytes, 1)), std::as_writable_bytes(std::span(sizes)));
  std::vector<Offer> all(static_cast<size_t>(std::accumulate(sizes.begin(), sizes.end(), int64_t{0})) / sizeof(Offer));
  allgather(comm, std::as_bytes(std::span(own)), std::as_writable_bytes(std::span(all)), sizes);
  return all;
}

// Every message has been received or is an announcement, and all members have started and ended the same MPI collectives.
bool is_quiet(const std::vector<Traffic>& of_members) {
  int64_t on_the_way = 0;
  for (const Traffic& traffic : of_members) {
    if (traffic.open != 0 || traffic.collectives != of_members[0].collectives) return false;
    on_the_way += traffic.sent - traffic.received;
  }
  return on_the_way == 0;
}

}  // namespace

std::vector<bool> find_freeable(const Communicator& comm, const std::vector<Retired>& mine) {
  std::map<uint64_t, std::vector<Traffic>> by_key;
  for (const Offer& offer : offers_of_all(comm, mine)) by_key[offer.key].push_back(offer.traffic);
  std::vector<bool> freeable;
  for (const Retired& retired : mine) {
    int members = 0;
    MPI_Comm_size(retired.comm, &members);
    const auto found = by_key.find(retired.key);
    freeable.push_back(found != by_key.end() && std::ssize(found->second) == members && is_quiet(found->second));
    if (!freeable.back()) continue;
    int64_t to_me = -retired.traffic.announced;
    for (const Traffic& traffic : found->second) to_me += traffic.announced;
    drop_announcements(retired.comm, to_me - retired.traffic.received_announcements);
  }
  for (size_t i = 0; i < mine.size(); ++i) {  // the others are receiving my announcements now
    while (freeable[i] && !std::ranges::all_of(mine[i].announcements, [](const auto& each) { return each->advance(); })) continue;
  }
  return freeable;
}

bool is_freeable_alone(const Retired& retired) {
  int members = 0;
  MPI_Comm_size(retired.comm, &members);
  return members == 1 && !retired.may_hold_leftovers && is_quiet({retired.traffic});
}

void keep_for_ever(Retired& retired) {
  if (retired.kept.empty() && retired.announcements.empty()) return;
  [[maybe_unused]] const auto* kept = new std::pair(std::move(retired.kept), std::move(retired.announcements));
}

}  // namespace tw::mpi
