// Additions to the builder's own settings for the lab extension.
// The builder's module ids are digests of names that have the folder of the clone in them: numbers by order have not, so
// that every clone gives the same bytes.
module.exports = { optimization: { moduleIds: 'natural' } };
