// SPDX-License-Identifier: Apache-2.0
#include "agreement_text.hpp"

#include <algorithm>
#include <ranges>
#include <tw/base/concat.hpp>
#include <tw/base/text_stream.hpp>

namespace tw {
namespace {

constexpr size_t max_named = 8;  // ranks named in a message: a job may have thousands

std::string list_of_ranks(const std::vector<RankFailure>& failures) {
  const std::string text =
      concat(failures.size() == 1 ? "rank " : "ranks ", joined(failures | std::views::take(max_named), ", ", &RankFailure::rank));
  return failures.size() > max_named ? concat(text, " and ", failures.size() - max_named, " more") : text;
}

std::vector<std::string> split_lines(const std::string& text) {
  std::vector<std::string> lines;
  TextReader in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

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

std::vector<RankFailure> causes_of(std::vector<RankFailure> failures) {
  const auto is_consequence = [](const RankFailure& failure) { return failure.kind == RankFailure::Kind::consequence; };
  if (!std::ranges::all_of(failures, is_consequence)) std::erase_if(failures, is_consequence);
  return failures;
}

std::string failure_text(const std::string& what, const std::vector<RankFailure>& causes, int ranks, const std::string& comm) {
  const RankFailure& first = causes.front();
  const bool is_everywhere = causes.size() == static_cast<size_t>(ranks);
  const bool is_one = std::ranges::count(causes, first.message, &RankFailure::message) == std::ssize(causes);
  if (is_everywhere && is_one) return concat(what, " failed: ", first.message);
  return concat(what, " failed on ", is_everywhere ? "every rank" : list_of_ranks(causes), " of '", comm,
                "': ", is_one ? "" : concat("rank ", first.rank, ": "), first.message);
}

std::string differences_text(const std::vector<std::string>& texts) {
  std::string differences;
  size_t ranks = 0;
  for (size_t rank = 1; rank < texts.size(); ++rank) {
    if (texts[rank] == texts[0] || ++ranks > max_named) continue;
    differences += (differences.empty() ? "" : "; ") + first_difference(texts[0], texts[rank], rank);
  }
  return ranks > max_named ? concat(differences, "; and ", ranks - max_named, " more ranks differ from rank 0") : differences;
}

}  // namespace tw
