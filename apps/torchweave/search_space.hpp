// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <tw/base/config.hpp>
#include <tw/evolution/configuration.hpp>
#include <tw/evolution/space.hpp>
#include <vector>

namespace tw::tool {

/// Takes all keys "search.space.NAME.*" out of `config`: kind, then low, high, scale ("linear" or "log") and step, or values; initial, which is
/// tried first; and when.PARENT. NAME may have dots. Sorted by name, but after what they depend on. Problems are reported to `config`.
std::vector<search::Parameter> read_parameters(Config& config);

/// All that exist: name and value.
std::vector<std::pair<std::string, std::string>> settings_of(const search::Space& space, const std::vector<double>& values);

}  // namespace tw::tool
