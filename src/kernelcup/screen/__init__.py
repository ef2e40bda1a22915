"""What a second opinion points out to reviewers in a submission's text: hints, never a verdict."""
