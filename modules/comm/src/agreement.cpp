// SPDX-License-Identifier: Apache-2.0
#include <tw/base/contract.hpp>
#include <tw/base/hash.hpp>
#include <tw/comm/agreement.hpp>
#include <tw/comm/objects.hpp>
#include <tw/mpi/collectives.hpp>

#include <algorithm>
#include <sstream>

namespace tw {
namespace {

std::vector<std::string> split_lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// "rank 2 has 'b float32 [3]' where rank 0 has 'b float32 [4]'", for the first line that differs.
std::string first_difference(const std::string& reference, const std::string& other, size_t other_rank) {
  const auto expected = split_lines(reference);
  const auto found = split_lines(other);
  const size_t common = std::min(expected.size(), found.size());
  size_t line = 0;
  while (line < common && expected[line] == found[line]) ++line;
  const auto shown = [line](const std::vector<std::string>& lines) {
    return line < lines.size() ? "'" + lines[line] + "'" : std::string("nothing more");
  };
  return concat("rank ", other_rank, " has ", shown(found), " where rank 0 has ", shown(expected));
}

}  // namespace

void expect_same_on_all_ranks(const Communicator& comm, const std::string& what, const std::vector<std::string>& lines) {
  std::string mine;
  for (const std::string& line : lines) mine += line + "\n";
  const uint64_t hash = content_hash(mine);
  std::vector<uint64_t> hashes(static_cast<size_t>(comm.size()));
  mpi::allgather(comm, std::as_bytes(std::span(&hash, 1)), std::as_writable_bytes(std::span(hashes)));
  if (std::all_of(hashes.begin(), hashes.end(), [&](uint64_t other) { return other == hashes[0]; })) return;

  const auto all = allgather_strings(comm, mine);
  std::string differences;
  for (size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] != all[0]) differences += (differences.empty() ? "" : "; ") + first_difference(all[0], all[rank], rank);
  }
  TW_EXPECTS(differences.empty(), what, " must be the same on all ranks of '", comm.name(), "': ", differences);
}

}  // namespace tw
