// SPDX-License-Identifier: Apache-2.0
// Agreement before ranks continue together: one rank's failure becomes an error on all ranks, and values that must be equal are compared. These
// functions do not help if a rank fails during communication, because the others wait for it there: use revoke_on_exception().
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
    error,        ///< any other exception
    consequence,  ///< a RevokedError: another rank failed first, and reports the cause
  };
  int rank = 0;
  Kind kind = Kind::error;
  std::string message = {};  ///< without the rank at the beginning of the error's message, and without LibTorch's backtrace

  bool operator==(const RankFailure&) const = default;
};

/// Runs `local` on every rank and catches whatever it throws. Use it for errors that you report yourself or recover from. Collective: each rank sends
/// 8 bytes, and its message if any rank threw. A single rank sends nothing.
/// @param local must not make collective calls on `comm`: if it threw on one rank, the others would wait in them.
/// @return one entry for each rank that threw, in rank order; the same on all ranks
std::vector<RankFailure> failures_on_all_ranks(const Communicator& comm, const std::function<void()>& local);

namespace detail {
/// Collective. @throws as on_all_ranks() does
void run_on_all_ranks(const Communicator& comm, const std::string& what, const std::function<void()>& local);
}  // namespace detail

/// Runs `make` on every rank and returns this rank's result. If `make` throws on any rank, all ranks throw the same error: either all continue or
/// none does. Collective; costs as much as failures_on_all_ranks(). If only one rank has work to do, such as opening a file, let `make` do nothing on
/// the others.
/// @param what names the action in the message, such as "opening the journal"; the same on all ranks.
/// @param make must not make collective calls on `comm`. It may return void, and ranks may return different values. The value is dropped if another
/// rank throws.
/// @throws ContractError if the lowest failed rank threw one, otherwise Error; also on a single rank. The message quotes that rank's error, and names
/// up to eight failed ranks: "opening the journal failed on rank 2 of 'world': ...". If all ranks fail with the same message: "opening the journal
/// failed: ...". Ranks that threw a RevokedError only followed another's failure: they count as failed only if no rank threw another error.
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

/// Whether all ranks pass the same `value`, compared by a 64-bit hash (8 bytes per rank). Returns the same on all ranks. Collective.
bool all_agree(const Communicator& comm, std::string_view value);

/// Checks that every rank holds the same `lines`. Collective; costs as much as all_agree(), and sends the lines only if their hashes differ.
/// @param what names the lines in the message, such as "the model's parameters". @param lines one for each thing that can differ; write numbers with
/// exact_text() if the last digit matters.
/// @throws ContractError on every rank if lines differ. The message names up to eight ranks that differ from rank 0, with the first differing line of
/// each.
void expect_same_on_all_ranks(const Communicator& comm, const std::string& what, const std::vector<std::string>& lines);

}  // namespace tw
