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

/// A parameter's value as one writes it in a configuration: whole numbers without a point or an exponent.
std::string setting_of(const search::Parameter& parameter, double value);

/// All that exist: name and value.
std::vector<std::pair<std::string, std::string>> settings_of(const search::Space& space, const std::vector<double>& values);

}  // namespace tw::tool
