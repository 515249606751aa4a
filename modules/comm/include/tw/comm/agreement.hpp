// SPDX-License-Identifier: Apache-2.0
// Before ranks go on together: a failure of one becomes an error on all, and what must be the same everywhere is compared. Where communication is
// already in flight when something can fail, others wait in it and cannot be asked: that is for revoke_on_exception().
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <tw/mpi/communicator.hpp>
#include <type_traits>
#include <utility>
#include <vector>

namespace tw {

/// What was thrown on one rank.
struct RankFailure {
  enum class Kind {
    contract,     ///< a ContractError: a caller's bug
    error,        ///< whatever else can be thrown
    consequence,  ///< a RevokedError: another rank had given up before, and knows why
  };
  int rank = 0;
  Kind kind = Kind::error;
  std::string message = {};  ///< without this rank in front, as contracts have it, and without LibTorch's backtrace

  bool operator==(const RankFailure&) const = default;
};

/// Runs `local` on every rank, and catches whatever it throws: for errors that are reported or survived rather than thrown.
/// Collective: 8 bytes per rank travel where nothing is thrown, otherwise the messages too; nothing at all on a single rank.
/// @param local makes no collective calls on `comm`: a rank on which it throws would leave the others waiting in them.
/// @return what was thrown, in the order of ranks, the same on all of them; empty: nothing.
std::vector<RankFailure> failures_on_all_ranks(const Communicator& comm, const std::function<void()>& local);

namespace detail {
/// Collective. @throws as on_all_ranks() does
void run_on_all_ranks(const Communicator& comm, const std::string& what, const std::function<void()>& local);
}  // namespace detail

/// Returns the result of `make` on this rank, unless it throws on some rank: then all ranks throw the same error, so that all or none continue.
/// Collective, at the cost of failures_on_all_ranks(). For what one rank alone does, such as opening a file, let the others do nothing in `make`.
/// @param what names the action in the message, such as "opening the journal"; the same on all ranks.
/// @param make makes no collective calls on `comm`. Its result may be void, or different from rank to rank; where others throw, it is dropped.
/// @throws ContractError where the first rank that failed threw one, otherwise Error; whatever was thrown, also on a single rank. The message names
/// the ranks that failed and quotes the first of them: "opening the journal failed on rank 2 of 'world': ..."; where all fail alike, "opening the
/// journal failed: ...". Ranks released by another's failure (RevokedError) are named only where no rank reports a cause.
template <class Make>
auto on_all_ranks(const Communicator& comm, const std::string& what, const Make& make) {
  using Made = std::invoke_result_t<const Make&>;
  if constexpr (std::is_void_v<Made>) {
    detail::run_on_all_ranks(comm, what, make);
  } else {
    std::optional<Made> made;
    detail::run_on_all_ranks(comm, what, [&] { made.emplace(make()); });
    return *std::move(made);
  }
}

/// Whether all ranks pass the same `value`: by a hash of 64 bits, 8 bytes per rank. The same answer on all ranks. Collective.
bool all_agree(const Communicator& comm, std::string_view value);

/// Checks that every rank holds the same `lines`. Collective, at the cost of all_agree(); the lines travel only where hashes differ.
/// @param what for the message, such as "the model's parameters". @param lines one for each thing that can differ; numbers as exact_text() has them,
/// where the last digit counts.
/// @throws ContractError on every rank alike, naming the ranks that differ from rank 0, eight at most, and the first line that does in each.
void expect_same_on_all_ranks(const Communicator& comm, const std::string& what, const std::vector<std::string>& lines);

}  // namespace tw
