// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <tw/base/config.hpp>
#include <tw/evolution/configuration.hpp>
#include <tw/evolution/named_values.hpp>
#include <tw/evolution/space.hpp>
#include <vector>

namespace tw::tool {

/// Reads all keys "search.space.NAME.*" of `config`: kind; low, high, scale ("linear" or "log") and step, or values; initial, the value that is tried
/// first; and when.PARENT. NAME may contain dots. @return parameters sorted by name, but each after the one that it depends on. Problems are reported
/// to `config`.
std::vector<search::Parameter> read_parameters(Config& config);

/// A configuration that a search tries first.
struct Start {
  std::string name;
  search::NamedTexts values = {};  ///< of some or all parameters
};

/// Reads all keys "search.start.NAME.PARAMETER" of `config`; NAME contains no dot. @return the starts, sorted by name
std::vector<Start> read_starts(Config& config, const std::vector<search::Parameter>& parameters);

/// The space of `parameters`, in which `starts` are tried first, after the initial values of the parameters themselves. @throws ConfigError that
/// names each start outside the space
search::Space space_of(const std::vector<search::Parameter>& parameters, const std::vector<Start>& starts);

/// Name and value of each parameter that exists under `values`.
std::vector<std::pair<std::string, std::string>> settings_of(const search::Space& space, const std::vector<double>& values);

}  // namespace tw::tool
