// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace tw {

/// Has `write` make a file beside `path`, and puts it in the place of `path` once it is whole and on the disk. What is a device or a pipe, such as
/// /dev/stdout, is written where it is. @throws what `write` throws; FileError
void replace_file(const std::filesystem::path& path, const std::function<void(const std::filesystem::path&)>& write);

void replace_file(const std::filesystem::path& path, const std::string& content);

/// Removes what was being made of `path` when processes were killed. @return those that could not be removed, and why
std::vector<std::string> remove_partials_of(const std::filesystem::path& path);

}  // namespace tw
