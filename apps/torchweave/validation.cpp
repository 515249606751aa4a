// SPDX-License-Identifier: Apache-2.0
#include "validation.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>

namespace tw::tool {
namespace {

std::optional<double> number_in(const std::string& text) {
  double number = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  return code == std::errc() && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

}  // namespace

int64_t Validation::held_out(int64_t samples) const {
  if (count > 0 && count >= samples)
    throw Error(concat("data.validation = ", count, " samples, but the training set has only ", samples,
                       ", and some must be left for training: hold out fewer"));
  if (count > 0 || share == 0 || samples < 2) return count;
  return std::clamp<int64_t>(std::llround(share * static_cast<double>(samples)), 1, samples - 1);
}

std::string problem_of_validation(const DataOptions& data) {
  if (data.validation.size() != 1 || data.validation.front().empty()) return "must be one share, one number or one folder";
  const std::string& text = data.validation.front();
  const std::optional<double> number = number_in(text);
  if (!number) return data.kind == "adding" ? concat("must be a share or a number for data of kind \"adding\", got \"", text, '"') : "";
  const bool is_share = *number >= 0 && *number < 1;
  const bool is_count = *number >= 1 && *number < 1e15 && *number == std::floor(*number);
  return is_share || is_count ? "" : concat("must be a share below 1, a whole number of samples or a folder, got ", text);
}

Validation validation_of(const DataOptions& data) {
  const std::string& text = data.validation.at(0);
  const std::optional<double> number = number_in(text);
  if (!number) return {.folder = text};
  if (*number < 1) return {.share = *number};
  return {.count = static_cast<int64_t>(*number)};
}

}  // namespace tw::tool
