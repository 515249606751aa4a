// SPDX-License-Identifier: Apache-2.0
// A command with parameters to be filled in: './simulate --dt {dt}'. Pure.
#pragma once
#include <map>
#include <string>
#include <vector>

namespace tw::tool {

/// Replaces each `{NAME}` whose name is in `values` by the value, quoted for the shell if necessary. Everything else stays as it is, including other
/// braces and `${NAME}`.
std::string fill_in(const std::string& text, const std::map<std::string, std::string>& values);

/// The texts in braces in `text` that look like names.
std::vector<std::string> names_in_braces(const std::string& text);

/// `value` as one word for the shell.
std::string shell_word(const std::string& value);

}  // namespace tw::tool
