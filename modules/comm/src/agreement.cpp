// SPDX-License-Identifier: Apache-2.0
#include <tw/comm/agreement.hpp>

#include <c10/util/Exception.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <tw/base/contract.hpp>
#include <tw/base/hash.hpp>
#include <tw/base/process.hpp>
#include <tw/comm/objects.hpp>
#include <tw/mpi/collectives.hpp>
#include <tw/mpi/error.hpp>

#include "agreement_text.hpp"

namespace tw {
namespace {

using Kind = RankFailure::Kind;

// By rank.
std::vector<uint64_t> numbers_of_all(const Communicator& comm, uint64_t mine) {
  std::vector<uint64_t> all(static_cast<size_t>(comm.size()));
  mpi::allgather(comm, std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)));
  return all;
}

// Call it while an exception is being handled.
RankFailure failure_of_rank(int rank) {
  try {
    throw;
  } catch (const RevokedError& error) {
    return {rank, Kind::consequence, without_process_label(error.what())};
  } catch (const ContractError& error) {
    return {rank, Kind::contract, without_process_label(error.what())};
  } catch (const c10::Error& error) {
    return {rank, Kind::error, error.what_without_backtrace()};
  } catch (const std::exception& error) {
    const std::string message = without_process_label(error.what());
    return {rank, Kind::error, message.empty() ? "an exception without a message" : message};
  } catch (...) {
    return {rank, Kind::error, "an exception that is not a std::exception"};
  }
}

std::optional<RankFailure> failure_of(const Communicator& comm, const std::function<void()>& local) {
  try {
    local();
    return std::nullopt;
  } catch (...) {
    return failure_of_rank(comm.rank());
  }
}

}  // namespace

// Exchanges the kinds of failure first, 0 for none; then the messages, if any rank failed.
std::vector<RankFailure> failures_on_all_ranks(const Communicator& comm, const std::function<void()>& local) {
  const std::optional<RankFailure> mine = failure_of(comm, local);
  if (comm.size() == 1) return mine ? std::vector{*mine} : std::vector<RankFailure>();
  const std::vector<uint64_t> kinds = numbers_of_all(comm, mine ? 1 + static_cast<uint64_t>(mine->kind) : 0);
  if (std::ranges::count(kinds, 0U) == std::ssize(kinds)) return {};
  const std::vector<std::string> messages = allgather_strings(comm, mine ? mine->message : "");
  std::vector<RankFailure> failures;
  for (size_t rank = 0; rank < kinds.size(); ++rank) {
    if (kinds[rank] > 0) failures.push_back({static_cast<int>(rank), static_cast<Kind>(kinds[rank] - 1), messages[rank]});
  }
  return failures;
}

void detail::run_on_all_ranks(const Communicator& comm, const std::string& what, const std::function<void()>& local) {
  const std::vector<RankFailure> causes = causes_of(failures_on_all_ranks(comm, local));
  if (causes.empty()) return;
  const std::string message = failure_text(what, causes, comm.size(), comm.name());
  if (causes.front().kind == Kind::contract) throw ContractError(message);
  throw Error(message);
}

bool all_agree(const Communicator& comm, std::string_view value) {
  const std::vector<uint64_t> hashes = numbers_of_all(comm, content_hash(value));
  return std::ranges::count(hashes, hashes[0]) == std::ssize(hashes);
}

void expect_same_on_all_ranks(const Communicator& comm, const std::string& what, const std::vector<std::string>& lines) {
  std::string mine;
  for (const std::string& line : lines) mine += line + "\n";
  if (all_agree(comm, mine)) return;
  const std::string differences = differences_text(allgather_strings(comm, mine));
  TW_EXPECTS(differences.empty(), what, " must be the same on all ranks of '", comm.name(), "': ", differences);
}

}  // namespace tw
