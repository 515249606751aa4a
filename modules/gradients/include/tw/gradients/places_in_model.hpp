// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <string>
#include <tw/gradients/trainable_model.hpp>
#include <tw/tensor/named_shard.hpp>

namespace tw {

/// The places of this rank's parameters in the whole model.
class PlacesInModel {
 public:
  explicit PlacesInModel(const TrainableModel& model);

  /// @param name a name in ModelTensors::parameters. @return the parameter's shard of the whole model, without the tensor
  const NamedShard& at(const std::string& name) const { return places_.at(name); }
  /// @param part a part of this rank's parameter `part.name`. @return the same elements, as a part of the whole model's parameter
  NamedShard in_whole(NamedShard part) const;

 private:
  std::map<std::string, NamedShard> places_;
};

}  // namespace tw
