// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/pipeline/stage_model.hpp>

namespace tw::pipeline {

/// Runs `segments` one after the other.
inline Stage::Forward in_turn(std::vector<Stage::Forward> segments) {
  return [segments = std::move(segments)](const std::vector<at::Tensor>& inputs, const graph::PassRows& rows) {
    std::vector<at::Tensor> values = inputs;
    for (const Stage::Forward& segment : segments) values = segment(values, rows);
    return values;
  };
}

}  // namespace tw::pipeline
