// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace tw {

/// Has `write` make a file next to `path`, and moves it to `path` once it is whole and on the disk: whoever reads `path` finds the old content or the
/// new. A link stays, and the file that it points to is replaced. Devices, pipes and what lies in /dev, such as /dev/stdout, are written in place.
/// Everything that is written at once goes this way. @throws what `write` throws, where a FileError names `path`; FileError
void replace_file(const std::filesystem::path& path, const std::function<void(const std::filesystem::path&)>& write);

void replace_file(const std::filesystem::path& path, const std::string& content);

/// Removes what replace_file() of killed processes left of `path`. @return those that could not be removed, and why
std::vector<std::string> remove_partials_of(const std::filesystem::path& path);

}  // namespace tw
