// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <tw/base/config.hpp>
#include <tw/evolution/configuration.hpp>
#include <tw/evolution/named_values.hpp>
#include <tw/evolution/space.hpp>
#include <vector>

namespace tw::tool {

/// Takes all keys "search.space.NAME.*" out of `config`: kind, then low, high, scale ("linear" or "log") and step, or values; initial, which is
/// tried first; and when.PARENT. NAME may have dots. Sorted by name, but after what they depend on. Problems are reported to `config`.
std::vector<search::Parameter> read_parameters(Config& config);

/// A configuration that a search tries first.
struct Start {
  std::string name;
  search::NamedTexts values = {};  ///< some of them
};

/// Takes all keys "search.start.NAME.PARAMETER" out of `config`, sorted by name, in which there is no dot.
std::vector<Start> read_starts(Config& config, const std::vector<search::Parameter>& parameters);

/// Of these parameters, where these are tried first, after what the parameters themselves say. @throws ConfigError naming each start that lies
/// outside
search::Space space_of(const std::vector<search::Parameter>& parameters, const std::vector<Start>& starts);

/// All that exist: name and value.
std::vector<std::pair<std::string, std::string>> settings_of(const search::Space& space, const std::vector<double>& values);

}  // namespace tw::tool
