// The unit of the target that owns a precompiled header; see tw_precompiled().
