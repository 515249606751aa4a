// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <tw/evolution/space.hpp>
#include <tw/search/options.hpp>
#include <vector>

#include "train_config.hpp"

namespace tw::tool {

/// Problems of the meshes on which the trials of a search train: axes that do not fit the ranks of each worker, and stages that may differ when a
/// trial resumes or copies another one. Reads only the keys mesh.* and pipeline.*. Pure.
/// @param fixed the training, without the parameters of `space`
std::vector<std::string> problems_of_meshes(const search::Space& space, const TrainConfig& fixed, const search::SearchOptions& options);

}  // namespace tw::tool
