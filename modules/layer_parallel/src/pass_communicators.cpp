// SPDX-License-Identifier: Apache-2.0
#include "pass_communicators.hpp"

#include <algorithm>
#include <exception>
#include <span>
#include <tw/base/concat.hpp>
#include <tw/base/hash.hpp>
#include <tw/comm/agreement.hpp>
#include <tw/mpi/collectives.hpp>

namespace tw::layer_parallel {
namespace {

/// What ranks exchange before a pass.
struct Beginning {
  uint64_t lines = 0;   // hash of the lines
  uint64_t failed = 0;  // 1: this rank cannot make the pass
  uint64_t broken = 0;  // 1: an exception ended an earlier forward or backward pass
  uint64_t note = 0;
  int64_t number = 0;
};

uint64_t hash_of(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + '\n';
  return content_hash(text);
}

Communicator from_the_other_end(const Communicator& comm) { return comm.split(0, -comm.rank()); }

}  // namespace

PassCommunicators::PassCommunicators(const Communicator& comm)
    : lasting_(comm.dup()), onward_(lasting_.dup()), reversed_(from_the_other_end(onward_)) {}

std::vector<uint64_t> PassCommunicators::begin_pass(const std::string& what, uint64_t note, const std::function<std::vector<std::string>()>& lines,
                                                    int64_t& number) {
  std::vector<std::string> mine;
  std::exception_ptr failure;
  try {
    mine = lines();
  } catch (...) {
    failure = std::current_exception();
  }
  const bool broken = onward_.revoked() || reversed_.revoked();
  const Beginning here{hash_of(mine), failure ? 1U : 0U, broken ? 1U : 0U, note, number};
  std::vector<Beginning> all(static_cast<size_t>(lasting_.size()));
  mpi::allgather(lasting_, std::as_bytes(std::span(&here, 1)), std::as_writable_bytes(std::span(all)));
  const bool any_broken = std::ranges::any_of(all, [](const Beginning& rank) { return rank.broken != 0; });
  if (any_broken) {
    onward_ = lasting_.dup();
    reversed_ = from_the_other_end(onward_);
    number = std::ranges::max(all, {}, &Beginning::number).number;
  } else if (!failure) {
    mine.push_back(concat("pass ", number));
  }
  if (std::ranges::any_of(all, [](const Beginning& rank) { return rank.failed != 0; })) {
    on_all_ranks(lasting_, "checking " + what, [&] {
      if (failure) std::rethrow_exception(failure);
    });
  }
  if (std::ranges::any_of(all, [&](const Beginning& rank) { return rank.lines != all[0].lines || (rank.number != all[0].number && !any_broken); }))
    expect_same_on_all_ranks(lasting_, what, mine);
  std::vector<uint64_t> notes;
  for (const Beginning& rank : all) notes.push_back(rank.note);
  return notes;
}

}  // namespace tw::layer_parallel
