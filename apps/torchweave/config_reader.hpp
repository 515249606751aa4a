// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <tw/base/concat.hpp>
#include <tw/base/config.hpp>
#include <utility>
#include <vector>

namespace tw::tool {

/// Binds keys and checks what they say; every problem tells the nearest value that would do.
class Reader {
 public:
  explicit Reader(Config& config) : config_(config) {}

  template <class Field>
  void take(const std::string& key, Field& field) {
    config_.bind(key, field);
  }

  void name(const std::string& key, std::string& field, const std::vector<std::string>& allowed) { config_.bind(key, field, allowed); }

  template <class Enum>
  void choice(const std::string& key, Enum& field, const std::vector<std::pair<std::string, Enum>>& names) {
    std::vector<std::string> allowed;
    std::string chosen;
    for (const auto& [text, value] : names) {
      allowed.push_back(text);
      if (value == field) chosen = text;
    }
    config_.bind(key, chosen, allowed);
    for (const auto& [text, value] : names) {
      if (text == chosen) field = value;
    }
  }

  /// @param most by default what an int holds: no count of anything is larger
  void at_least(const std::string& key, int64_t& field, int64_t least, int64_t most = std::numeric_limits<int>::max()) {
    config_.bind(key, field);
    if (field < least) refuse(key, concat("must be at least ", least, ", got ", field), concat(least));
    if (field > most) refuse(key, concat("must be at most ", most, ", got ", field), concat(most));
  }

  void in_range(const std::string& key, double& field, double least, std::optional<double> below = {}) {
    config_.bind(key, field);
    if (!(field >= least)) refuse(key, concat("must be at least ", least, ", got ", field), concat(least));
    if (below && !(field < *below)) refuse(key, concat("must be below ", *below, ", got ", field), concat(0.99 * *below));
  }

  void positive(const std::string& key, double& field) {
    config_.bind(key, field);
    if (!(field > 0)) refuse(key, concat("must be positive, got ", field), "1e-4");
  }

  void refuse(const std::string& key, const std::string& problem, const std::string& nearest) {
    std::string origin;
    for (const Config::Entry& entry : config_.entries()) {
      if (entry.key == key) origin = entry.origin + ": ";
    }
    config_.report(concat(origin, key, " ", problem, "; the nearest that will do is ", nearest));
  }

 private:
  Config& config_;
};

}  // namespace tw::tool
