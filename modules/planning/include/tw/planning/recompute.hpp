// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace tw::pipeline {

/// What a stage keeps from the forward to the backward pass of a micro-batch. With k micro-batches in flight, and `saved` what autograd keeps:
///
/// | | keeps | computes again | memory |
/// |---|---|---|---|
/// | none | what autograd keeps | nothing | (k - 1) saved(stage) + peak(stage) |
/// | selective | the inputs of its segments | each segment, right before its backward pass | (k - 1) kept(stage) + max (kept + peak)(segment) |
/// | full | its input | its forward pass, right before its backward pass | k input(stage) + peak(stage) |
///
/// Where the backward pass follows the forward pass at once, the last segment, of full all, is not computed again.
/// kept: the inputs of a segment and of those before it, which a backward pass has not freed yet; of a stage, those of all its segments.
/// peak: the most that a backward pass holds at a time, of what is saved and of cotangents, scratch, and gradients before they are added up.
/// Where something is computed again, outputs must not depend on buffers that the stage itself changes in training.
/// Ref: Chen et al. 2016, arXiv 1604.06174.
enum class Recompute { none, selective, full };

}  // namespace tw::pipeline
