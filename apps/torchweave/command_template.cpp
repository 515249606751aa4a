// SPDX-License-Identifier: Apache-2.0
#include "command_template.hpp"

#include <algorithm>
#include <cctype>
#include <string_view>

namespace tw::tool {
namespace {

bool is_plain(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || std::string_view("_-+.,:/@%=").find(c) != std::string_view::npos; }

/// Calls back for the text between names, and for each name in braces.
template <class OnText, class OnName>
void scan(const std::string& text, OnText on_text, OnName on_name) {
  size_t done = 0;
  for (size_t open = text.find('{'); open != std::string::npos; open = text.find('{', open + 1)) {
    const size_t close = text.find_first_of("{}", open + 1);
    if (close == std::string::npos || text[close] != '}' || (open > 0 && text[open - 1] == '$')) continue;
    if (!on_name(text.substr(open + 1, close - open - 1), [&] { on_text(text.substr(done, open - done)); })) continue;
    done = close + 1;
  }
  on_text(text.substr(done));
}

}  // namespace

std::string shell_word(const std::string& value) {
  if (!value.empty() && std::all_of(value.begin(), value.end(), is_plain)) return value;
  std::string word = "'";
  for (const char c : value) word += c == '\'' ? "'\\''" : std::string(1, c);
  return word + "'";
}

std::string fill_in(const std::string& text, const std::map<std::string, std::string>& values) {
  std::string filled;
  scan(
      text, [&](const std::string& between) { filled += between; },
      [&](const std::string& name, const auto& before) {
        const auto found = values.find(name);
        if (found == values.end()) return false;
        before();
        filled += shell_word(found->second);
        return true;
      });
  return filled;
}

std::vector<std::string> names_in_braces(const std::string& text) {
  std::vector<std::string> names;
  scan(
      text, [](const std::string&) {},
      [&](const std::string& name, const auto&) {
        if (!name.empty() && std::all_of(name.begin(), name.end(), is_plain)) names.push_back(name);
        return false;
      });
  return names;
}

}  // namespace tw::tool
