// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace tw {

/// Lets `write` create a file next to `path`, and moves it to `path` once it is complete and on disk: a reader of `path` finds the old content or the
/// new. A link stays, and its target is replaced. Devices, pipes and files in /dev, such as /dev/stdout, are written in place. All files that are
/// written at once use this function. @throws what `write` throws, where a FileError names `path`; FileError
void replace_file(const std::filesystem::path& path, const std::function<void(const std::filesystem::path&)>& write);

void replace_file(const std::filesystem::path& path, const std::string& content);

/// Removes what replace_file() of killed processes left of `path`. @return those that could not be removed, and why
std::vector<std::string> remove_partials_of(const std::filesystem::path& path);

}  // namespace tw
